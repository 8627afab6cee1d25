// Speed of llama.cpp by Vulkan, as its llama-bench measures: random tokens, flash attention on, a cache of f16 numbers, one run
// to warm up. `bench/llama_vulkan.sh` builds it against a published build of llama.cpp.
//
// Usage: llama_vulkan MODEL TEST...   where a TEST is pp:TOKENS or tg:TOKENS[:DEPTH]
#include "ggml-backend.h"
#include "llama.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static const int BATCH = 2048, REPEATS = 5;

// What the backend says of its device: matrices, integer dots.
static void told(enum ggml_log_level level, const char *text, void *) {
  if (level == GGML_LOG_LEVEL_ERROR || strstr(text, "matrix cores")) fputs(text, stderr);
}

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Random tokens, so many in a batch.
static void decode(llama_context *context, int tokens, int batch) {
  const int words = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
  std::vector<llama_token> some(batch);
  for (int done = 0; done < tokens; done += batch) {
    const int count = std::min(batch, tokens - done);
    for (int i = 0; i < count; i++) some[i] = rand() % words;
    if (llama_decode(context, llama_batch_get_one(some.data(), count))) {
      fprintf(stderr, "llama_decode failed\n");
      exit(1);
    }
    llama_synchronize(context);
  }
}

static void measure(llama_model *model, bool prompt, int tokens, int depth) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = tokens + depth;
  params.n_batch = BATCH;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  llama_context *context = llama_init_from_model(model, params);
  if (!context) {
    fprintf(stderr, "no context of %d tokens\n", tokens + depth);
    exit(1);
  }
  std::vector<double> speeds;
  for (int run = 0; run <= REPEATS; run++) {
    llama_memory_clear(llama_get_memory(context), false);
    decode(context, depth, BATCH);
    const double begin = seconds();
    decode(context, tokens, prompt ? BATCH : 1);
    if (run > 0) speeds.push_back(tokens / (seconds() - begin));
  }
  std::sort(speeds.begin(), speeds.end());
  printf("%s%d @ %d: median %.1f tok/s, %.1f to %.1f\n", prompt ? "pp" : "tg", tokens, depth, speeds[speeds.size() / 2],
         speeds.front(), speeds.back());
  llama_free(context);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: llama_vulkan MODEL pp:TOKENS|tg:TOKENS[:DEPTH]...\n");
    return 2;
  }
  llama_log_set(told, nullptr);
  // The libraries lie beside the program.
  const std::string program = argv[0];
  ggml_backend_load_all_from_path(program.substr(0, program.rfind('/')).c_str());
  ggml_backend_dev_t devices[] = {ggml_backend_dev_by_name("Vulkan0"), nullptr};
  if (!devices[0]) {
    fprintf(stderr, "no device of Vulkan\n");
    return 1;
  }
  llama_model_params params = llama_model_default_params();
  params.devices = devices;
  params.n_gpu_layers = 999;
  llama_model *model = llama_model_load_from_file(argv[1], params);
  if (!model) return 1;
  printf("%s, llama.cpp %s\n", ggml_backend_dev_description(devices[0]), llama_version());
  for (int i = 2; i < argc; i++) {
    int tokens = 0, depth = 0;
    const bool prompt = sscanf(argv[i], "pp:%d", &tokens) == 1;
    if (!prompt && sscanf(argv[i], "tg:%d:%d", &tokens, &depth) < 1) {
      fprintf(stderr, "'%s' is no test\n", argv[i]);
      return 2;
    }
    measure(model, prompt, tokens, depth);
  }
  llama_model_free(model);
}
