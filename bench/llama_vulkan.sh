#!/usr/bin/env bash
# Builds bench/llama_vulkan.cpp into FOLDER beside a published build of llama.cpp with Vulkan, for speeds beside `--device wgpu`.
# Distributions' shader compilers are too old to build that part of llama.cpp with the matrices of newer cards; the packages of
# node-llama-cpp have it built, and its source for the headers. Needs npm, git and g++; the folder can be carried elsewhere.
# Usage: bench/llama_vulkan.sh FOLDER; then FOLDER/llama_vulkan MODEL pp:512 pp:2048 tg:64 tg:64:4000
set -euo pipefail

folder=${1:?a folder for the program and its libraries}
version=3.22.1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$work"
for package in node-llama-cpp @node-llama-cpp/linux-x64-vulkan; do
  file=$(npm pack --silent "$package@$version")
  mkdir -p "$package"
  tar -xzf "$file" -C "$package" --strip-components=1
done
git -c advice.detachedHead=false clone -q node-llama-cpp/llama/gitRelease.bundle source
find @node-llama-cpp -name 'lib*.so' -exec cp {} "$folder" \;
cd "$folder"
g++ -O2 -std=c++17 -I"$work/source/include" -I"$work/source/ggml/include" "$here/llama_vulkan.cpp" -o llama_vulkan \
  -L. -l:"$(basename libllama.*.so)" -l:"$(basename libggml.*.so)" -l:libggml-base.so -Wl,-rpath,'$ORIGIN'
