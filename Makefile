# SPDX-License-Identifier: Apache-2.0
#
# For hands that type make: each target is one command of Meson, ./demo or ./check.
# Nothing here needs make; README.md names the commands themselves.
BUILD = build

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

# DESTDIR is handed on by the environment.
install: all
	DESTDIR='$(DESTDIR)' meson install -C $(BUILD) --no-rebuild

check test:
	./check

demo:
	./demo

clean:
	rm -rf $(BUILD) build-*

.PHONY: all install check test demo clean
