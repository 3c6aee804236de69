# The targets that CI runs, and the ones that people run.
.PHONY: test lint bench

test:
	cargo test

lint:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

bench:
	cargo bench
