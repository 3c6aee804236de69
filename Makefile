# What people and CI run. `make quick` before every commit, `make test` before every merge.
.PHONY: test quick lint openapi bench crash soak python wheel

# The whole suite: unit, statistical and integration tests, curl through every endpoint, schemathesis, the FashionMNIST
# figures, and the Python package.
test:
	tests/setup.sh
	cargo test --workspace
	python/test.sh

# The Python package: its wheel in the dev profile, in a fresh environment, with every check and test.
python:
	python/test.sh

# The release wheel, for this machine's glibc and later ones. docs/python.md says how wheels for everyone are built.
wheel:
	python3 -m venv target/python/tools
	target/python/tools/bin/pip install -q --disable-pip-version-check 'maturin==1.16.*'
	cd python && ../target/python/tools/bin/maturin build --release --out ../target/wheels

# Under two minutes after the build: all unit tests, the engine's reference values, properties and whole jobs,
# the formats, the conformance test of the store, the API through a real server, and the citations in the documents.
# It selects the same packages as `make test`, so that the two share one build.
quick:
	cargo test --workspace --lib --bins --test engine
	cargo test --workspace --test ingest --test store --test service -- \
	  formats:: conformance:: docs:: openapi:: jobs:: certificates::

lint:
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings

# Run this after changing a handler or a schema. A test compares the file with the handlers.
openapi:
	cargo run --quiet -- openapi > openapi/openapi.json

bench:
	cargo bench --workspace

# The long runs of docs/trust.md. They print their figures.
CRASHES ?= 500
SEED ?= 1
crash:
	GUARANTOR_CRASHES=$(CRASHES) GUARANTOR_CRASH_SEED=$(SEED) \
	  cargo test --release --test trust crash:: -- --nocapture

LOAD_SECONDS ?= 60
SOAK_JOBS ?= 10000
REPLICA_KILLS ?= 200
REPLICA_SECONDS ?= 600
soak:
	GUARANTOR_LOAD_SECONDS=$(LOAD_SECONDS) GUARANTOR_SOAK_JOBS=$(SOAK_JOBS) \
	  cargo test --release --test trust load:: -- --nocapture --test-threads 1
	GUARANTOR_REPLICA_KILLS=$(REPLICA_KILLS) GUARANTOR_REPLICA_SECONDS=$(REPLICA_SECONDS) \
	  cargo test --release --test replicas -- --nocapture --test-threads 1
