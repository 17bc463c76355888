#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans in the simulator: every algorithm's on small topologies.  Sums are exact, and no job
fails, with loss and with switches that begin anew; rates are about those of the plan, where
nothing but links limits both and results are counted.  And plans that make no sense are refused.

    planned.py FANIN                 with 24 ranks in three groups
    planned.py FANIN --ranks 1024    a job of so many, in groups of 256 or less; nothing else
"""
import copy
import json
import os
import subprocess
import sys
import tempfile

ELEMENTS = 400000
PAYLOAD, HEAD = 1408, 36
HEADERS = HEAD + 66
SLACK = 0.06
SLOTS = 512  # of each switch: a part in flight has some 30, and twenty parts pass it
FULL_SLACK = 0.12  # several parts, which share a link by their windows

fanin = sys.argv[1]
failures = 0


def fail(text):
    global failures
    failures += 1
    print(text)


def run(*args):
    return subprocess.run([fanin, *args], capture_output=True, text=True, check=False)


def topology_of(name):
    with open(f'../../experiments/lab/{name}.json', encoding='utf-8') as f:
        topology = json.load(f)
    for n in topology['nodes']:
        n.pop('gbps', None)  # links alone
    return topology


def install(folder, topology, algorithm, more=()):
    plan = topology if isinstance(topology, str) else os.path.join(folder, 'topology.json')
    out = os.path.join(folder, 'in.json')
    if not isinstance(topology, str):
        topology = copy.deepcopy(topology)
        for n in topology['nodes']:
            if n['kind'] == 'switch':
                n['gbps'] = 1000
        with open(plan, 'w', encoding='utf-8') as f:
            json.dump(topology, f)
    r = run('plan', plan, '-a', algorithm, '--json', os.path.join(folder, 'plan.json'),
            '--install', out, '--topology', os.path.join(folder, 'made.json'), *more)
    if r.returncode:
        fail(f'{algorithm}: {r.stderr}')
    with open(os.path.join(folder, 'plan.json'), encoding='utf-8') as f:
        return out, json.load(f)


def simulate(folder, topology, plan, elements=ELEMENTS, **more):
    scenario = {'topology': topology, **more,
                'jobs': [{'name': 'job', 'model': {'numel': elements, 'layers': 2},
                          'window': 128, 'verify': True}]}
    file = os.path.join(folder, 'scenario.json')
    with open(file, 'w', encoding='utf-8') as f:
        json.dump(scenario, f)
    r = run('sim', file, '-q', '--plan', plan, '--json', os.path.join(folder, 'result.json'))
    if r.returncode:
        return r, None
    with open(os.path.join(folder, 'result.json'), encoding='utf-8') as f:
        return r, json.load(f)


def rate_with_results(topology, plan):
    """What each worker can send if a result comes back once on every link of its tree."""
    load = {}

    def add(a, b, share):
        load[a, b] = load.get((a, b), 0) + share

    for number, tree in enumerate(plan['trees']):
        back = set()
        routes = [a['route'] for a in plan['assignments'] if a['tree'] == number]
        for route in routes + [s['route'] for s in tree['sums']]:
            for a, b in zip(route, route[1:]):
                add(a, b, tree['share'])
                back.add((b, a))
        for a, b in back:
            add(a, b, tree['share'])
    return min(link['gbps'] / load[way] for link in topology['links']
               for way in ((link['a'], link['b']), (link['b'], link['a'])) if load.get(way))


def gbps_of(result):
    """The rate on a worker's link of a tensor of 4 * ELEMENTS, frames counted."""
    slowest = max(j['comm_s'] for j in result['jobs'])
    return 4 * ELEMENTS * 32 / slowest / 1e9 * (PAYLOAD + HEADERS) / PAYLOAD


def rates(folder):
    """Simulated rates against planned ones, for the plans of one tree on each server."""
    for name in ('grid-example', 'inart-example'):
        topology = topology_of(name)
        for algorithm in ('geryon', 'switchml', 'atp', 'grid', 'inart', 'best'):
            plan, planned = install(folder, topology, algorithm, ('--trees', '1'))
            r, result = simulate(folder, topology, plan, 4 * ELEMENTS)
            if not result:
                fail(f'{name} {algorithm}: {r.stderr}')
                continue
            gbps = gbps_of(result)
            possible = rate_with_results(topology, planned)
            print(f'{name} {algorithm}: planned {planned["gradients_gbps"]:.4g}, with results '
                  f'{possible:.4g}, simulated {gbps:.4g}, {len(result["jobs"])} parts')
            if abs(gbps / possible - 1) > SLACK:
                fail('  that is too far')
            if abs(planned['with_results_gbps'] / possible - 1) > 1e-6:
                fail(f'  the plan says {planned["with_results_gbps"]} with results')


def capacities(folder):
    """The same where switches and servers can be full, too: what a switch sums, and nothing else
    that passes it, counts.  Overhead of frames is on links alone, so there is less of it here."""
    bare = (PAYLOAD + HEAD) / (PAYLOAD + HEADERS)
    for name in ('grid-example', 'inart-example'):
        with open(f'../../experiments/lab/{name}.json', encoding='utf-8') as f:
            topology = json.load(f)
        file = os.path.join(folder, 'full.json')
        with open(file, 'w', encoding='utf-8') as f:
            json.dump(topology, f)
        for n in topology['nodes']:
            if n['kind'] != 'worker':
                n['sums_gbps' if n['kind'] == 'switch' else 'gbps'] = n.pop('gbps') * bare
        for algorithm in ('geryon', 'switchml', 'atp', 'grid', 'best'):
            plan, planned = install(folder, file, algorithm, ('--trees', '4'))
            r, result = simulate(folder, topology, plan, 4 * ELEMENTS)
            if not result:
                fail(f'{name} {algorithm}: {r.stderr}')
                continue
            gbps = gbps_of(result)
            possible = planned['with_results_gbps']
            print(f'{name} {algorithm}, all capacities: planned {planned["gradients_gbps"]:.4g}, '
                  f'with results {possible:.4g}, simulated {gbps:.4g}, {len(result["jobs"])} parts')
            if abs(gbps / possible - 1) > FULL_SLACK:
                fail('  that is too far')


def many_trees(folder):
    """Plans of some twenty parts, which cross in switches with little memory.  What does not meet
    there goes to the server unsummed, over the link that is planned to be full of sums."""
    sys.path.insert(0, os.path.join(os.path.dirname(sys.argv[0]), '..', '..', 'simulator', 'lab'))
    from layout import WIRE, Layout  # pylint: disable=import-outside-toplevel,import-error
    for made in ('fat-tree:k=4,workers=14,link=10,server=10,programmable=0.5,switch=10,'
                 'switch_max=60,seed=3',
                 'leaf-spine:leaves=4,spines=3,workers=20,link=10,server=12,switch=10,'
                 'switch_max=60,seed=2'):
        file, planned = install(folder, made, 'best',
                                ('--no-bound', '--slots', str(SLOTS)))
        with open(os.path.join(folder, 'made.json'), encoding='utf-8') as f:
            topology = Layout(json.load(f)).scenario(None, 1)['topology']
        for n in topology['nodes']:
            if n['kind'] == 'switch':
                n['slots'] = SLOTS
        r, result = simulate(folder, topology, file, 2 * ELEMENTS)
        if not result:
            fail(f'{made}: {r.stderr}')
            continue
        slowest = max(j['comm_s'] for j in result['jobs'])
        gbps = 2 * ELEMENTS * 32 * WIRE / slowest / 1e9
        print(f'{made}: planned {planned["with_results_gbps"]:.4g}, simulated {gbps:.4g}, '
              f'{len(result["jobs"])} parts')
        if gbps < planned['with_results_gbps'] * (1 - FULL_SLACK):
            fail('  that is too far')


def through_routers(folder):
    """Routes that pass switches that cannot sum, in the planner's own files: GRID's setting."""
    relay = {'nodes': [{'name': 'A', 'kind': 'switch', 'gbps': 10}, {'name': 'B', 'kind': 'switch'},
                       {'name': 'w0', 'kind': 'worker'}, {'name': 'w1', 'kind': 'worker'},
                       {'name': 'p', 'kind': 'server'}],
             'links': [{'a': a, 'b': b, 'gbps': 10} for a, b in ('AB', ('w0', 'A'), ('w1', 'A'), 'pB')]}
    file, made = (os.path.join(folder, f) for f in ('relay.json', 'made.json'))
    with open(file, 'w', encoding='utf-8') as f:
        json.dump(relay, f)
    for spec in (file, 'fat-tree:k=4,workers=14,programmable=0.2,link=10,switch=10,server=10'):
        for algorithm in ('geryon', 'grid', 'best'):
            plan, planned = install(folder, spec, algorithm)
            with open(plan, encoding='utf-8') as f:
                routed = {s['name'] for s in json.load(f)['switches']}
            with open(made, encoding='utf-8') as f:
                able = {n['name'] for n in json.load(f)['nodes'] if 'gbps' in n}
            r, result = simulate(folder, made, plan, 4 * ELEMENTS)
            if not result:
                fail(f'{spec} {algorithm}: {r.stderr}')
                continue
            gbps = gbps_of(result)
            checked = sum(j['checked_elements'] for j in result['jobs'])
            print(f'{spec} {algorithm}: planned {planned["with_results_gbps"]:.4g}, simulated '
                  f'{gbps:.4g}, {len(routed - able)} routers, {checked} elements exact')
            if not routed - able or checked != planned_workers(planned) * 4 * ELEMENTS:
                fail('  no router on the way, or not all elements checked')
            if abs(gbps / planned['with_results_gbps'] - 1) > FULL_SLACK:
                fail('  that is too far')


def planned_workers(planned):
    return len({a['worker'] for a in planned['assignments']})


def pace(folder):
    """Workers at half of what the plan gives: since the job says so, or the plan does."""
    topology = topology_of('grid-example')
    plan, _ = install(folder, topology, 'best', ('--trees', '1'))
    scenario, slow = (os.path.join(folder, f) for f in ('scenario.json', 'slow.json'))
    simulate(folder, topology, plan)
    with open(scenario, encoding='utf-8') as f:
        job = json.load(f)
    job['jobs'][0]['pace_gbps'] = 1.5
    with open(scenario, 'w', encoding='utf-8') as f:
        json.dump(job, f)
    r = run('sim', scenario, '-q', '--plan', plan, '--json', os.path.join(folder, 'result.json'))
    check_pace(folder, 'job', r)
    with open(plan, encoding='utf-8') as f:
        half = json.load(f)
    for part in half['parts']:
        part['gbps'] /= 2
    with open(slow, 'w', encoding='utf-8') as f:
        json.dump(half, f)
    check_pace(folder, 'plan', simulate(folder, topology, slow)[0])


def check_pace(folder, where, r):
    if r.returncode:
        fail(f'pace: {r.stderr}')
        return
    with open(os.path.join(folder, 'result.json'), encoding='utf-8') as f:
        seconds = json.load(f)['jobs'][0]['comm_s']
    gbps = ELEMENTS * 32 / seconds / 1e9 * (PAYLOAD + HEADERS) / PAYLOAD
    print(f'pace 1.5 of the {where}: {gbps:.4g}')
    if not 1.5 * (1 - SLACK) < gbps < 1.5 * 1.01:
        fail('  that is not the pace')


def trouble(folder):
    """Loss everywhere, and every switch begins anew once in the middle."""
    for made, more in (('grid-example', ('--trees', '1')), ('inart-example', ()),
                       ('fat-tree:k=4,workers=8,servers=2,link=1,server=1,switch=1', ()),
                       ('triangle', ())):
        known = ':' not in made and made != 'triangle'
        for algorithm in ('best', 'atp'):
            plan, _ = install(folder, topology_of(made) if known else made, algorithm, more)
            with open(os.path.join(folder, 'made.json'), encoding='utf-8') as f:
                topology = json.load(f)
            topology.pop('jobs', None)
            for n in topology['nodes']:
                n.pop('gbps', None)
            for link in topology['links']:
                link['loss'] = 0.003
            switches = [n['name'] for n in topology['nodes'] if n['kind'] == 'switch']
            _, calm = simulate(folder, topology, plan)
            unit = calm['end_s'] / (2 * len(switches)) if calm else 0.001
            changes = [{'at_s': unit * (1 + i), 'node': s, 'restart_s': unit}
                       for i, s in enumerate(switches[:6])]
            r, result = simulate(folder, topology, plan, ELEMENTS, changes=changes)
            if not result:
                fail(f'{made} {algorithm}: {r.stderr}')
                continue
            for j in result['jobs']:
                if j['error']:
                    fail(f'{made} {algorithm}: {j["name"]}: {j["error"]}')
            if result['end_s'] < changes[-1]['at_s']:
                fail(f'{made} {algorithm}: over before all have begun anew')
            print(f'{made} {algorithm}: {len(result["jobs"])} parts, {result["end_s"]:.4f} s, '
                  f'{sum(j["retransmissions"] for j in result["jobs"])} sent again')


def groups(folder, ranks, each, leaves, loss=0, **more):
    """A job of more ranks than one server takes: groups whose sums a further server adds up."""
    made = (f'leaf-spine:leaves={leaves},spines={max(2, leaves // 4)},workers={ranks},'
            f'servers={-(-ranks // each)},root=1')
    plan, planned = install(folder, made, 'best', ('--no-bound',))
    with open(os.path.join(folder, 'made.json'), encoding='utf-8') as f:
        topology = json.load(f)
    del topology['jobs']
    for n in topology['nodes']:
        n.pop('gbps', None)
    for link in topology['links']:
        link['loss'] = loss
    elements = ELEMENTS // 4
    r, result = simulate(folder, topology, plan, elements, **more)
    if not result:
        fail(f'{made}: {r.stderr}')
        return
    job, = result['jobs']
    print(f'{made}: planned {planned["with_results_gbps"]:.4g} Gb/s, simulated '
          f'{job["throughput_gbps_per_worker"]:.4g}, {job["workers"]} workers at {job["at"]}, '
          f'{job["checked_elements"]} elements exact, {job["retransmissions"]} sent again')
    if job['error'] or job['workers'] != ranks or job['checked_elements'] != ranks * elements:
        fail(f'  {job["error"]}, {job["checked_elements"]} elements checked')


def refused_part(folder):
    """40 workers in 52 parts, half of them by a switch to the next, which has room for 2048 members:
    a part that is refused there ends with the cause, though some of its workers wait at its server."""
    names = [f'w{i}' for i in range(40)]
    links = [{'a': n, 'b': 's1' if i < 20 else 's2', 'gbps': 10} for i, n in enumerate(names)]
    links += [{'a': 's1', 'b': 's2', 'gbps': 10}, {'a': 's2', 'b': 'ps', 'gbps': 10}]
    nodes = [{'name': n, 'kind': 'worker'} for n in names] + [{'name': 'ps', 'kind': 'server'}]
    nodes += [{'name': s, 'kind': 'switch'} for s in ('s1', 's2')]

    def routes(*entries):
        keys = ('from', 'ranks', 'next', 'depth', 'sums')
        entries = [dict(zip(keys, (*e, False))) for e in entries]
        return [{'route': 1 + k, 'quota': 0, 'entries': entries} for k in range(52)]

    plan = {'parts': [{'route': 1 + k, 'job': 'job', 'name': f'job/{k}', 'server': 'ps', 'gbps': 1,
                       'cut': [(k << 32) // 52, (k + 1 << 32) // 52]} for k in range(52)],
            'workers': [{'worker': n, 'job': 'job', 'rank': i, 'joins': [
                {'route': 1 + k, 'at': 's1' if i < 20 else 's2'} for k in range(52)]}
                for i, n in enumerate(names)],
            'switches': [{'name': 's1', 'routes': routes((None, '0-19', 's2', 2))},
                         {'name': 's2', 'routes': routes(('s1', '0-19', 'ps', 1),
                                                         (None, '20-39', 'ps', 1))}]}
    file = os.path.join(folder, 'refused.json')
    with open(file, 'w', encoding='utf-8') as f:
        json.dump(plan, f)
    r, _ = simulate(folder, {'nodes': nodes, 'links': links}, file, 20000, limit_s=100)
    with open(os.path.join(folder, 'result.json'), encoding='utf-8') as f:
        result = json.load(f)
    causes = [j['error'] for j in result['jobs']]
    print(f'refused: status {r.returncode}, {result["end_s"]:.4f} s, {causes.count(None)} of 52 over')
    if r.returncode != 1 or result['end_s'] > 1 or set(causes) != {None, 'members_full'}:
        fail(f'  expected some parts with members_full, and an end: {causes} {r.stderr}')


def wrong(folder):
    """A plan that is changed, and what is said of it."""
    topology = topology_of('grid-example')
    file, _ = install(folder, topology, 'grid')
    with open(file, encoding='utf-8') as f:
        good = json.load(f)

    def refused(text, change):
        bad = copy.deepcopy(good)
        bad = change(bad) or bad
        with open(file, 'w', encoding='utf-8') as f:
            json.dump(bad, f)
        r, _ = simulate(folder, topology, file)
        if r.returncode != 2 or text not in r.stderr:
            fail(f'expected status 2 and "{text}", got {r.returncode} and: {r.stderr}')

    route = good['switches'][0]['routes'][0]

    def entry(**values):
        return lambda p: p['switches'][0]['routes'][0]['entries'][0].update(values)

    refused('routes[0].routes[0].entries[0].next: "S9": no node', entry(next='S9'))
    refused('routes[0].routes[0].entries[0].from: "S9": no node', entry(**{'from': 'S9'}))
    refused('entries[0].ranks: expected a text', entry(ranks='1-'))
    refused('entries[0].ranks: expected a text', entry(ranks='256'))
    refused('entries[0].depth: 0: expected a whole number', entry(depth=0))
    refused('routes[0].routes[0].entries: contradict', lambda p: p['switches'][0]['routes'][0]
            ['entries'].append(dict(route['entries'][0], depth=9)))
    refused('entries[0].sums: "S1" cannot sum', lambda p: topology['nodes'][0].update(kind='router'))
    topology['nodes'][0]['kind'] = 'switch'
    refused('routes[0].name: "W1": no switch', lambda p: p['switches'][0].update(name='W1'))
    refused('of its 1 parts are of jobs of this', lambda p: p['parts'][0].update(job='other'))
    refused('expected "parts" and "switches"', lambda p: {'trees': []})
    refused('jobs[0].cut: expected two', lambda p: p['parts'][0].update(cut=[5, 4]))
    refused('joins: "S1" knows no route 7', lambda p: (
        p['parts'][0].update(route=7), [w['joins'][0].update(route=7) for w in p['workers']],
        None)[-1])
    refused('at: "S3": no server', lambda p: p['parts'][0].update(server='S3'))
    topology['nodes'][0]['sums_gbps'] = 9
    refused('"S1" has sums_gbps: goes with a plan', lambda p: {'parts': p['parts'], 'switches': []})
    topology['nodes'][0]['gbps'] = 9
    refused('sums_gbps: goes without gbps', lambda p: None)
    del topology['nodes'][0]['gbps'], topology['nodes'][0]['sums_gbps']
    topology['nodes'][-1]['sums_gbps'] = 9
    refused('sums_gbps: a worker has none', lambda p: None)
    del topology['nodes'][-1]['sums_gbps']
    r = run('sim', os.path.join(folder, 'scenario.json'), '--plan', 'nowhere.json')
    if r.returncode != 2 or 'nowhere.json: No such file' not in r.stderr:
        fail(f'a plan that is not there: {r.returncode} {r.stderr}')


with tempfile.TemporaryDirectory() as work:
    if '--ranks' in sys.argv:
        count = int(sys.argv[sys.argv.index('--ranks') + 1])
        groups(work, count, 256, max(4, count // 64))
        sys.exit(failures != 0)
    groups(work, 24, 8, 4)
    groups(work, 24, 8, 4, loss=0.003, changes=[{'at_s': 0.0003, 'node': 'L1', 'restart_s': 0.0003}])
    rates(work)
    capacities(work)
    many_trees(work)
    through_routers(work)
    pace(work)
    trouble(work)
    refused_part(work)
    wrong(work)
print(f'{failures} failed')
sys.exit(failures != 0)
