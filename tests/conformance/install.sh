#!/usr/bin/env bash
# Installs the foreign clients and Kafka's tools that the conformance tests run, into .cache here.
#   install.sh [kcat|python|java|go|node|kafka ...]     all of them without arguments
# What is there already is left alone, so it may be called before each run. Needs bash, Python 3.9,
# Java 17, Maven, Node 18 with npm, and Go, of which a newer one is fetched if it is too old; kcat comes from
# the Debian package.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${CONFORMANCE_HOME:-$here/.cache}
copy=org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies

say() { echo "conformance: $*" >&2; }
fail() { say "$@"; exit 1; }
need() { command -v "$1" >/dev/null || fail "$1 is missing: install $2"; }

# stale MARK FILE...: whether the files differ from those that MARK was made from
stale() {
  local mark=$home/$1.installed
  shift
  sum=$(cat "$@" | sha256sum)
  [[ ! -e $mark || $(<"$mark") != "$sum" ]]
}
done_() { echo "$sum" >"$home/$1.installed"; }

install_kcat() {
  command -v kcat >/dev/null && return
  say "kcat, from the Debian package"
  local sudo=''
  ((EUID == 0)) || sudo='sudo -n'
  # shellcheck disable=SC2086 # empty for root
  { $sudo apt-get -qq update && $sudo apt-get -qq -y install kcat >/dev/null; } ||
    fail "kcat cannot be installed: install it by hand"
}

install_python() {
  need python3 "Python 3.9 or newer with venv"
  stale python "$here/drivers/requirements.txt" || return 0
  say "confluent-kafka, kafka-python and aiokafka, from PyPI"
  rm -rf "$home/python"
  python3 -m venv "$home/python"
  "$home/python/bin/pip" install -q --disable-pip-version-check -r "$here/drivers/requirements.txt"
  done_ python
}

# jars POM VERSION FOLDER
jars() {
  mkdir -p "$3"
  local said
  said=$(mvn -q -B -f "$1" -Dkafka.version="$2" "$copy" -DoutputDirectory="$3" 2>&1) || fail "$said"
}

install_java() {
  need mvn Maven
  need javac "a JDK, 17 or newer"
  stale java "$here"/drivers/java/{pom.xml,Driver.java,Member.java} || return 0
  rm -rf "$home/java"
  for version in 4.3.1 4.4.0; do
    say "kafka-clients $version, from Maven"
    jars "$here/drivers/java/pom.xml" "$version" "$home/java/$version"
  done
  javac -cp "$home/java/4.4.0/*" -d "$home/java/classes" "$here"/drivers/java/{Driver,Member}.java
  done_ java
}

install_kafka() {
  need mvn Maven
  need javac "a JDK, 17 or newer"
  stale kafka "$here"/tools/{pom.xml,*.java} || return 0
  say "Apache Kafka 4.3.1 with its tools, Streams and Connect, from Maven"
  rm -rf "$home/kafka"
  jars "$here/tools/pom.xml" 4.3.1 "$home/kafka/libs"
  javac -cp "$home/kafka/libs/*" -d "$home/kafka/classes" "$here"/tools/*.java
  done_ kafka
}

# old THIS THAN: whether a version is older than another
old() { [[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# Puts a Go into $go that can build what go.mod asks for. Debian 12 has 1.19, which cannot, and which does
# not fetch another by itself as Go does from 1.21 on: it is told to, and compares the checksum.
find_go() {
  local wanted has module
  wanted=$(sed -n 's/^go //p' "$1/go.mod")
  has=$(go env GOVERSION)
  go=go
  old "${has#go}" "$wanted" || return 0
  module=golang.org/toolchain@v0.0.1-go$wanted.$(go env GOOS)-$(go env GOARCH)
  say "$has is here, go.mod wants $wanted: $module, from the Go proxy"
  (cd / && GOFLAGS=-mod=mod GOTOOLCHAIN=local go mod download "$module") ||
    fail "Go $wanted cannot be fetched: install it from https://go.dev/dl and put it first in PATH"
  # A cache of modules makes nothing executable and nothing writable.
  rm -rf "$home/go-$wanted"
  cp -r "$(go env GOMODCACHE)/$module" "$home/go-$wanted"
  chmod -R u+wX "$home/go-$wanted"
  chmod +x "$home/go-$wanted"/bin/* "$home/go-$wanted"/pkg/tool/*/*
  go=$home/go-$wanted/bin/go
}

install_go() {
  need go "Go, of any version that has modules"
  local drivers=$here/drivers go
  stale go "$drivers"/{go.mod,go.sum,{protocol,franz-go,sarama}/*.go} || return 0
  say "franz-go and sarama, from the Go proxy"
  mkdir -p "$home/go"
  find_go "$drivers"
  (cd "$drivers" && GOTOOLCHAIN=local "$go" build -o "$home/go/" ./franz-go ./sarama)
  done_ go
}

install_node() {
  need npm "Node, 18 or newer, with npm"
  local driver=$here/drivers/kafkajs
  stale node "$driver"/{package.json,package-lock.json,driver.js} || return 0
  say "kafkajs, from npm"
  rm -rf "$home/kafkajs"
  mkdir -p "$home/kafkajs"
  cp "$driver"/{package.json,package-lock.json,driver.js} "$home/kafkajs/"
  (cd "$home/kafkajs" && npm ci --silent --no-audit --no-fund) || fail "npm ci failed in $home/kafkajs"
  done_ node
}

mkdir -p "$home"
(($#)) || set -- kcat python java go node kafka
for part; do
  declare -F "install_$part" >/dev/null || fail "nothing is called $part"
  "install_$part"
done
