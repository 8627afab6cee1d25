#!/usr/bin/env bash
# The proof of a change that shall change no kernel: lists a digest of every source and every schedule that a program
# makes, for each golden model, shape, policy, target and class of step. Run it with the program before and the program
# after; the lists are equal, or `diff` names what is not, and --keep leaves the texts of one model to be compared.
# Usage: bench/kernels.sh PROGRAM [GOLDEN-FOLDER] > LIST
#        bench/kernels.sh --keep FOLDER PROGRAM MODEL.gguf
# Takes some eight minutes on one core and 4 GB of disk.
set -euo pipefail

# One of each plan: widths of 16, 32 and 64 bytes, dots of two and of four, the matrix unit, blocks of threads.
int8=scalar,avx2,avx-vnni,avx512,avx512-vnni,avx512-vnni+amx-bf16,neon,cuda
exact=avx2,avx512,cuda

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# emit PROGRAM MODEL FOLDER: all sources of a model.
emit() {
  "$1" compile --emit source --numerics int8 --target "$int8" --out "$3/int8" "$2" >/dev/null
  "$1" compile --emit source --numerics exact --target "$exact" --out "$3/exact" "$2" >/dev/null
}

# list PROGRAM MODEL NAME: a line for each text.
list() {
  rm -rf "${work:?}/$3"
  emit "$1" "$2" "$work/$3"
  (cd "$work" && find "$3" -type f | LC_ALL=C sort | xargs sha256sum)
  rm -rf "${work:?}/$3"
}

if [ "${1:-}" = --keep ]; then
  emit "$3" "$4" "$2"
  exit
fi
program=$(realpath "${1:?usage: bench/kernels.sh PROGRAM [GOLDEN-FOLDER]}")
golden=${2:-$(dirname "$0")/../../shared/golden}
for model in "$golden"/*.gguf; do
  list "$program" "$model" "$(basename "$model" .gguf)"
done
# Layers of a kind share their kernels, so three have all of them.
for shape in glm-4.7-flash deepseek-v2-lite youtu-llm-2b llama-3.2-1b; do
  for quant in q4_0 q4_k_m; do
    "$program" synth "$shape" --layers 3 -q "$quant" -o "$work/model.gguf" >/dev/null 2>&1
    list "$program" "$work/model.gguf" "$shape-$quant"
    rm "$work/model.gguf"
  done
done
