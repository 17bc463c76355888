#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# networkx 3.6 does not read the JSON that networkx 3.3 and all before it wrote: node_link_data() wrote the edges as "links",
# and node_link_graph() now looks for "edges" alone and raises KeyError. A file with both, as some tools write for readers old
# and new, is read by either, each by its own list. Nothing in a file says which networkx it is of.
# Until files have a version: name the list, node_link_graph(data, edges="links"), by what is in the file.
#
#     networkx 3.3 writes links; networkx 3.6: KeyError 'edges', with edges="links" [('a', 'b')]
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for version in 3.3 3.6; do
        python3 -m venv "$dir/$version"
        "$dir/$version/bin/pip" install --quiet networkx==$version
done
cat >"$dir/write.py" <<'EOF'
import json
import sys

import networkx

data = networkx.node_link_data(networkx.Graph([("a", "b")]))
print("networkx", networkx.__version__, "writes", *({"edges", "links"} & {*data}), end="; ")
json.dump(data, open(sys.argv[1], "w"))
EOF
cat >"$dir/read.py" <<'EOF'
import json
import sys

import networkx

data = json.load(open(sys.argv[1]))
try:
    said = list(networkx.node_link_graph(data).edges)
except KeyError as error:
    said = f"KeyError {error}"
edges = list(networkx.node_link_graph(data, edges="links").edges)
print(f"networkx {networkx.__version__}: {said}, with", 'edges="links"', edges)
EOF
{
        "$dir/3.3/bin/python" "$dir/write.py" "$dir/file"
        "$dir/3.6/bin/python" "$dir/read.py" "$dir/file"
} >"$dir/out"
cat "$dir/out"
echo "networkx 3.3 writes links; networkx 3.6: KeyError 'edges', with edges=\"links\" [('a', 'b')]" | cmp - "$dir/out"
