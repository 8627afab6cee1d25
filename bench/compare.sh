#!/usr/bin/env bash
# Speed of kernloom beside llama.cpp on the same files, alternating.
#
#   bench/compare.sh [OPTIONS of compare.py]        bench/compare.sh --help
#   bench/compare.sh --rows all --best              every row; some hours and 25 GB of disk
#   bench/compare.sh --peer LLAMA_CPP/build ...     with a peer that is built already
#
# Builds kernloom, installs the peer unless --peer names a build (once; about ten minutes on two cores) and hands over to
# compare.py.
# Everything goes to the folder $COMPARE_FOLDER, by default target/compare: the peer, the models, the results.
# Needs Rust, Python 3 with venv, a C++ compiler, and a network for the first run.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
version=0.3.36 # of llama-cpp-python, whose source package carries llama.cpp
folder=${COMPARE_FOLDER:-$repository/target/compare}
peer=$folder/llama.cpp-$version
programs=(llama-bench llama-batched-bench llama-completion)

case " $* " in
  *" --help "* | *" -h "*) exec python3 "$repository/bench/compare.py" "$@" ;;
esac

install_peer() {
  mkdir -p "$peer"
  echo "installing the peer (llama-cpp-python $version) into $peer" >&2
  python3 -m venv "$peer/venv"
  # Only build tools; the package itself is never installed.
  "$peer/venv/bin/pip" install -q cmake ninja scikit-build-core
  export PATH=$peer/venv/bin:$PATH
  pip download -q --no-deps --no-binary :all: --no-build-isolation -d "$peer/package" "llama-cpp-python==$version"
  rm -rf "$peer/unpacked"
  mkdir "$peer/unpacked"
  tar xzf "$peer"/package/*.tar.gz --strip-components=1 -C "$peer/unpacked"
  cmake -S "$peer/unpacked/vendor/llama.cpp" -B "$peer/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DGGML_NATIVE=ON -DGGML_CCACHE=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >"$peer/cmake.log" 2>&1 ||
    { tail -n 20 "$peer/cmake.log" >&2; return 1; }
  ninja -C "$peer/build" "${programs[@]}" >"$peer/build.log" 2>&1 ||
    { tail -n 20 "$peer/build.log" >&2; return 1; }
}

given=()
case " $* " in
  *" --peer"*) ;;
  *)
    for program in "${programs[@]}"; do
      [ -x "$peer/build/bin/$program" ] || { install_peer; break; }
    done
    given=(--peer "$peer/build")
    ;;
esac
(cd "$repository" && cargo build --release -p kernloom-cli)

exec python3 "$repository/bench/compare.py" \
  --kernloom "${CARGO_TARGET_DIR:-$repository/target}/release/kernloom" \
  --folder "$folder" ${given[@]+"${given[@]}"} "$@"
