# Everything a developer or a CI job does, by name. `make help` lists it.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
WARREN ?= $(TARGET_DIR)/release/warren
PREFIX ?= /usr/local
# A program for any Linux, whatever its C library is and wherever it is built.
RELEASE_FLAGS := -Ctarget-feature=+crt-static --remap-path-prefix=$(CURDIR)=/warren --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
RELEASE := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/warren

.DEFAULT_GOAL := help
.PHONY: help build run install uninstall release dist deb test check audit bench bless clean

help: ## List the recipes
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the release binary (target/release/warren)
	$(CARGO) build --release --locked --package warren

run: build ## Build, show what a sandbox is, and start the server (needs root)
	@WARREN=$(WARREN) scripts/demo

$(WARREN):
	@$(MAKE) --no-print-directory build

install: | $(WARREN) ## Put program, manual, completions and units below PREFIX (/usr/local); DESTDIR is for packagers
	@scripts/install-tree $(WARREN) $(PREFIX) $(DESTDIR)

uninstall: ## Take away what `make install` put there; data stays
	@scripts/install-tree --remove $(PREFIX) $(DESTDIR)

release:
	RUSTFLAGS="$(RELEASE_FLAGS)" $(CARGO) build --release --locked --package warren --target x86_64-unknown-linux-gnu

dist: release ## An archive, a Debian package and their checksums in target/dist, the same bytes from the same source
	@scripts/package $(RELEASE) $(TARGET_DIR)/dist

deb: release ## The Debian package alone
	@scripts/package $(RELEASE) $(TARGET_DIR)/dist deb

test: ## Install what the tests need (as root), then run all of them
	@scripts/install-test-deps
	@scripts/test
	@scripts/siege $(TARGET_DIR)/debug/warren 3
	@scripts/side-by-side "scripts/real-machine $(TARGET_DIR)/debug/warren" "scripts/test-api $(TARGET_DIR)/debug/warren" "scripts/test-clients $(TARGET_DIR)/debug/warren" \
		"scripts/test-e2b $(TARGET_DIR)/debug/warren" "scripts/test-mcp $(TARGET_DIR)/debug/warren" "scripts/test-browser $(TARGET_DIR)/debug/warren" "scripts/soak $(TARGET_DIR)/debug/warren" "scripts/storm $(TARGET_DIR)/debug/warren" \
		"scripts/test-compat $(TARGET_DIR)/debug/warren" "scripts/test-docs $(TARGET_DIR)/debug/warren" \
		"scripts/test-package $(TARGET_DIR)/debug/warren" "scripts/fuzz 30"

check: ## Formatting, lints, documentation and the rules of the house
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked
	$(CARGO) test --quiet --locked --workspace --test tidy
	@scripts/check-features warren-wire warren-e2b
	@scripts/install-check-tools
	$(CARGO) machete --skip-target-dir crates tests
	$(CARGO) deny --log-level warn check bans licenses sources

audit: ## Known faults of what we build upon (fetches the advisory database)
	$(CARGO) deny --log-level warn check advisories

bench: ## Measure this machine, fail if a target was missed (needs root, most of an hour)
	$(CARGO) build --release --locked --package warren --package warren-bench
	$(TARGET_DIR)/release/warren-bench

bless: ## Accept what the golden files' tests produce now
	WARREN_BLESS=1 $(CARGO) test --workspace --locked --no-fail-fast

clean: ## Remove everything that was built
	$(CARGO) clean
