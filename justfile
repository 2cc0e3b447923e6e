# `just` alone prints this list.
_list:
    @just --list --unsorted

# A node on 127.0.0.1:9092, data under ./vltava-data
server *arguments:
    cargo run --release -- server {{arguments}}

# What a change must pass before it is pushed; writes nothing
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask test --quick

# Formats, writes what is generated, applies what clippy is sure of
fix:
    cargo xtask codegen
    cargo xtask docs
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

# Every test, with what they need installed first
test:
    cargo xtask test

# The house rules alone
tidy:
    cargo xtask tidy

# The tests of one crate: just crate storage
crate name *arguments:
    cargo test --package vltava-{{name}} {{arguments}}

# The simulation: just sim --seed 7, just sim --seconds 60 --twice
sim *arguments:
    cargo run --release --package vltava-sim -- {{arguments}}

# Other people's clients: just conformance java
conformance *filter:
    cargo xtask test conformance {{filter}}

# Real crashes, power cuts and hostile bytes: just e2e power
e2e *filter:
    cargo xtask test e2e {{filter}}

# Clusters under faults, as root: just torture run faults --minutes 30; `just torture run --help` lists the rest
torture *arguments:
    cargo build --release --package vltava --package vltava-torture
    target/release/torture {{arguments}}

# The whole of CI
ci:
    .ci/run

# Licences, duplicates and sources of the dependencies; needs cargo-deny
deny:
    cargo deny check bans licenses sources

# The fuzz targets, some seconds each: just fuzz frame; needs a nightly toolchain
fuzz *filter:
    cargo xtask test fuzz {{filter}}

# The binary as it is shipped and measured
dist:
    cargo build --profile dist

# One node, the clients, or a cluster beside Apache Kafka's, on a quiet machine: just bench client; `cargo xtask bench` says what it takes
bench page="broker" *arguments:
    cargo xtask bench {{page}} {{arguments}}
