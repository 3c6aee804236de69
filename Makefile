# The targets that CI runs, and the ones that people run.
.PHONY: test lint openapi bench

# Everything: unit, statistical and integration tests, curl through every endpoint, schemathesis, and the
# FashionMNIST figures.
test:
	tests/setup.sh
	cargo test

lint:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

# After a change of a handler: writes the document that tests/openapi.rs compares with.
openapi:
	cargo run --quiet -- openapi > openapi/openapi.json

bench:
	cargo bench
