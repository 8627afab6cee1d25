//! The models that have short names, as data, and how a short name is read.
//!
//! A name is `MODEL`, `MODEL-QUANT`, `MODEL:QUANT` or `MODEL-PUBLISHER-QUANT`, where `MODEL` is a name or an alias of a
//! row and `PUBLISHER` owns a repository. A quantisation that the row does not list is looked for in the repository.

use crate::quant;

/// A model with a short name.
#[derive(Debug, PartialEq)]
pub struct Model {
    /// The name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// `general.architecture` of its files.
    pub architecture: &'static str,
    /// Positions that it was made for.
    pub context: u32,
    /// The quantisation that is taken when none is named; the first file that has it.
    pub default: &'static str,
    /// Files, those of the preferred publisher first.
    pub files: &'static [File],
}

/// Where a quantisation of a model is published.
#[derive(Debug, PartialEq)]
pub struct File {
    /// The quantisation.
    pub quant: &'static str,
    /// The repository on the hub.
    pub repo: &'static str,
    /// The file in it; of a split model, the first.
    pub file: &'static str,
    /// Whether somebody looked that the file is there. Otherwise the name was taken from what others have published,
    /// and whoever uses it is told.
    pub checked: bool,
}

/// A file whose name was read somewhere and not tried.
const fn unchecked(quant: &'static str, repo: &'static str, file: &'static str) -> File {
    File { quant, repo, file, checked: false }
}

/// All rows.
pub const MODELS: &[Model] = &[
    Model {
        name: "glm-4.7-flash",
        aliases: &["glm-4.7:flash"],
        architecture: "deepseek2",
        context: 202_752,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q4_K_M.gguf"),
            unchecked("Q4_0", "unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q4_0.gguf"),
            unchecked("Q6_K", "unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q6_K.gguf"),
            unchecked("Q4_0", "bartowski/zai-org_GLM-4.7-Flash-GGUF", "zai-org_GLM-4.7-Flash-Q4_0.gguf"),
        ],
    },
    Model {
        name: "deepseek-v2-lite",
        aliases: &["ds2-lite", "deepseek-v2-lite-chat", "deepseek-v2:lite"],
        architecture: "deepseek2",
        context: 163_840,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "mradermacher/DeepSeek-V2-Lite-Chat-GGUF", "DeepSeek-V2-Lite-Chat.Q4_K_M.gguf"),
            unchecked("Q8_0", "mradermacher/DeepSeek-V2-Lite-Chat-GGUF", "DeepSeek-V2-Lite-Chat.Q8_0.gguf"),
            unchecked("Q4_0", "zhentaoyu/DeepSeek-V2-Lite-Chat-Q4_0-GGUF", "deepseek-v2-lite-chat-q4_0.gguf"),
        ],
    },
    Model {
        name: "deepseek-v2-lite-base",
        aliases: &["ds2-lite-base"],
        architecture: "deepseek2",
        context: 163_840,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "mradermacher/DeepSeek-V2-Lite-GGUF", "DeepSeek-V2-Lite.Q4_K_M.gguf")],
    },
    Model {
        name: "youtu-llm-2b",
        aliases: &["youtu-llm:2b", "youtu-llm"],
        architecture: "deepseek2",
        context: 131_072,
        default: "Q8_0",
        files: &[
            unchecked("Q8_0", "tencent/Youtu-LLM-2B-GGUF", "Youtu-LLM-2B-Q8_0.gguf"),
            unchecked("Q4_K_M", "AaryanK/Youtu-LLM-2B-GGUF", "Youtu-LLM-2B.q4_k_m.gguf"),
            unchecked("Q4_0", "AaryanK/Youtu-LLM-2B-GGUF", "Youtu-LLM-2B.q4_0.gguf"),
        ],
    },
    Model {
        name: "llama-3.2-1b",
        aliases: &["llama3.2:1b"],
        architecture: "llama",
        context: 131_072,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf"),
            unchecked("Q6_K", "bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q6_K.gguf"),
        ],
    },
    Model {
        name: "llama-3.2-3b",
        aliases: &["llama3.2:3b"],
        architecture: "llama",
        context: 131_072,
        default: "Q6_K",
        files: &[unchecked("Q6_K", "bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q6_K.gguf")],
    },
    Model {
        name: "llama-3.1-8b",
        aliases: &["llama3.1:8b"],
        architecture: "llama",
        context: 131_072,
        default: "Q8_0",
        files: &[unchecked(
            "Q8_0",
            "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF",
            "Meta-Llama-3.1-8B-Instruct-Q8_0.gguf",
        )],
    },
    Model {
        name: "qwen3-0.6b",
        aliases: &["qwen3:0.6b"],
        architecture: "qwen3",
        context: 40_960,
        default: "Q8_0",
        files: &[
            unchecked("Q8_0", "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
            unchecked("Q4_K_M", "unsloth/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q4_K_M.gguf"),
            unchecked("Q4_0", "unsloth/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q4_0.gguf"),
        ],
    },
    Model {
        name: "qwen3-1.7b",
        aliases: &["qwen3:1.7b"],
        architecture: "qwen3",
        context: 40_960,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "unsloth/Qwen3-1.7B-GGUF", "Qwen3-1.7B-Q4_K_M.gguf")],
    },
    Model {
        name: "qwen3-8b",
        aliases: &["qwen3:8b"],
        architecture: "qwen3",
        context: 40_960,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "Qwen/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf")],
    },
    Model {
        name: "qwen3-30b-a3b",
        aliases: &["qwen3:30b-a3b"],
        architecture: "qwen3moe",
        context: 40_960,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "Qwen/Qwen3-30B-A3B-GGUF", "Qwen3-30B-A3B-Q4_K_M.gguf")],
    },
    Model {
        name: "qwen3-30b-a3b-2507",
        aliases: &["qwen3:30b-a3b-2507"],
        architecture: "qwen3moe",
        context: 262_144,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF", "Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf"),
            unchecked("Q4_0", "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF", "Qwen3-30B-A3B-Instruct-2507-Q4_0.gguf"),
        ],
    },
    Model {
        name: "glm-4-9b",
        aliases: &["glm4:9b", "glm-4:9b"],
        architecture: "glm4",
        context: 32_768,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "unsloth/GLM-4-9B-0414-GGUF", "GLM-4-9B-0414-Q4_K_M.gguf")],
    },
    Model {
        name: "gpt-oss-20b",
        aliases: &["gpt-oss:20b"],
        architecture: "gpt-oss",
        context: 131_072,
        default: "MXFP4",
        files: &[unchecked("MXFP4", "lmstudio-community/gpt-oss-20b-GGUF", "gpt-oss-20b-MXFP4.gguf")],
    },
    Model {
        name: "gemma-3-1b",
        aliases: &["gemma3:1b"],
        architecture: "gemma3",
        context: 32_768,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "ggml-org/gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf"),
            unchecked("Q4_K_M", "bartowski/google_gemma-3-1b-it-GGUF", "google_gemma-3-1b-it-Q4_K_M.gguf"),
        ],
    },
    Model {
        name: "gemma-4-e2b",
        aliases: &["gemma4:e2b"],
        architecture: "gemma4",
        context: 131_072,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "unsloth/gemma-4-E2B-it-GGUF", "gemma-4-E2B-it-Q4_K_M.gguf"),
            unchecked("Q4_K_M", "bartowski/google_gemma-4-E2B-it-GGUF", "google_gemma-4-E2B-it-Q4_K_M.gguf"),
        ],
    },
    Model {
        name: "gemma-4-26b-a4b",
        aliases: &["gemma4:26b"],
        architecture: "gemma4",
        context: 262_144,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "ggml-org/gemma-4-26B-A4B-it-GGUF", "gemma-4-26B-A4B-it-Q4_K_M.gguf"),
            unchecked("Q4_K_M", "bartowski/google_gemma-4-26B-A4B-it-GGUF", "google_gemma-4-26B-A4B-it-Q4_K_M.gguf"),
        ],
    },
    Model {
        name: "smollm3-3b",
        aliases: &["smollm3:3b"],
        architecture: "smollm3",
        context: 65_536,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "ggml-org/SmolLM3-3B-GGUF", "SmolLM3-Q4_K_M.gguf")],
    },
    Model {
        name: "seed-oss-36b",
        aliases: &["seed-oss:36b"],
        architecture: "seed_oss",
        context: 524_288,
        default: "Q4_K_M",
        files: &[unchecked(
            "Q4_K_M",
            "bartowski/ByteDance-Seed_Seed-OSS-36B-Instruct-GGUF",
            "ByteDance-Seed_Seed-OSS-36B-Instruct-Q4_K_M.gguf",
        )],
    },
    Model {
        name: "ling-mini-2.0",
        aliases: &["ling-mini:2.0"],
        architecture: "bailingmoe2",
        context: 32_768,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "inclusionAI/Ling-mini-2.0-GGUF", "Ling-mini-2.0-Q4_K_M.gguf"),
            unchecked("Q4_K_M", "mradermacher/Ling-mini-2.0-GGUF", "Ling-mini-2.0.Q4_K_M.gguf"),
        ],
    },
    Model {
        name: "smollm2-135m",
        aliases: &["smollm2:135m"],
        architecture: "llama",
        context: 8_192,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "bartowski/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct-Q4_K_M.gguf"),
            unchecked("Q8_0", "bartowski/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct-Q8_0.gguf"),
        ],
    },
    Model {
        name: "phi-4-mini",
        aliases: &["phi4-mini"],
        architecture: "phi3",
        context: 131_072,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "unsloth/Phi-4-mini-instruct-GGUF", "Phi-4-mini-instruct-Q4_K_M.gguf")],
    },
    Model {
        name: "gemma-2-2b",
        aliases: &["gemma2:2b"],
        architecture: "gemma2",
        context: 8_192,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "bartowski/gemma-2-2b-it-GGUF", "gemma-2-2b-it-Q4_K_M.gguf")],
    },
    Model {
        name: "ministral-3-3b",
        aliases: &["ministral-3:3b"],
        architecture: "mistral3",
        context: 262_144,
        default: "Q4_K_M",
        files: &[unchecked(
            "Q4_K_M",
            "mistralai/Ministral-3-3B-Instruct-2512-GGUF",
            "Ministral-3-3B-Instruct-2512-Q4_K_M.gguf",
        )],
    },
    Model {
        name: "qwen3.5-4b",
        aliases: &["qwen3.5:4b"],
        architecture: "qwen35",
        context: 262_144,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "unsloth/Qwen3.5-4B-GGUF", "Qwen3.5-4B-Q4_K_M.gguf"),
            unchecked("Q4_0", "unsloth/Qwen3.5-4B-GGUF", "Qwen3.5-4B-Q4_0.gguf"),
        ],
    },
    Model {
        name: "qwen3.5-35b-a3b",
        aliases: &["qwen3.5:35b-a3b"],
        architecture: "qwen35moe",
        context: 262_144,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "unsloth/Qwen3.5-35B-A3B-GGUF", "Qwen3.5-35B-A3B-Q4_K_M.gguf")],
    },
    Model {
        name: "qwen3-next-80b-a3b",
        aliases: &["qwen3-next:80b-a3b"],
        architecture: "qwen3next",
        context: 262_144,
        default: "Q4_K_M",
        files: &[unchecked(
            "Q4_K_M",
            "lmstudio-community/Qwen3-Next-80B-A3B-Instruct-GGUF",
            "Qwen3-Next-80B-A3B-Instruct-Q4_K_M.gguf",
        )],
    },
    Model {
        name: "olmo-2-1b",
        aliases: &["olmo2:1b"],
        architecture: "olmo2",
        context: 4_096,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "allenai/OLMo-2-0425-1B-Instruct-GGUF", "OLMo-2-0425-1B-Instruct-Q4_K_M.gguf")],
    },
    Model {
        name: "granite-4.0-h-tiny",
        aliases: &["granite4:tiny-h"],
        architecture: "granitehybrid",
        context: 131_072,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "ibm-granite/granite-4.0-h-tiny-GGUF", "granite-4.0-h-tiny-Q4_K_M.gguf")],
    },
    Model {
        name: "exaone-4.0-1.2b",
        aliases: &["exaone4:1.2b"],
        architecture: "exaone4",
        context: 65_536,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "LGAI-EXAONE/EXAONE-4.0-1.2B-GGUF", "EXAONE-4.0-1.2B-Q4_K_M.gguf")],
    },
    Model {
        name: "command-r7b",
        aliases: &[],
        architecture: "cohere2",
        context: 132_096,
        default: "Q4_K_M",
        files: &[unchecked(
            "Q4_K_M",
            "bartowski/c4ai-command-r7b-12-2024-GGUF",
            "c4ai-command-r7b-12-2024-Q4_K_M.gguf",
        )],
    },
    Model {
        name: "lfm2-1.2b",
        aliases: &["lfm2:1.2b"],
        architecture: "lfm2",
        context: 128_000,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "LiquidAI/LFM2-1.2B-GGUF", "LFM2-1.2B-Q4_K_M.gguf")],
    },
    Model {
        name: "lfm2-8b-a1b",
        aliases: &["lfm2:8b-a1b"],
        architecture: "lfm2moe",
        context: 128_000,
        default: "Q4_K_M",
        files: &[
            unchecked("Q4_K_M", "LiquidAI/LFM2-8B-A1B-GGUF", "LFM2-8B-A1B-Q4_K_M.gguf"),
            unchecked("Q4_0", "LiquidAI/LFM2-8B-A1B-GGUF", "LFM2-8B-A1B-Q4_0.gguf"),
        ],
    },
    Model {
        name: "nemotron-nano-9b-v2",
        aliases: &["nemotron-nano:9b-v2"],
        architecture: "nemotron_h",
        context: 131_072,
        default: "Q4_K_M",
        files: &[unchecked(
            "Q4_K_M",
            "bartowski/nvidia_NVIDIA-Nemotron-Nano-9B-v2-GGUF",
            "nvidia_NVIDIA-Nemotron-Nano-9B-v2-Q4_K_M.gguf",
        )],
    },
    Model {
        name: "falcon-h1-1.5b",
        aliases: &["falcon-h1:1.5b"],
        architecture: "falcon-h1",
        context: 131_072,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "tiiuae/Falcon-H1-1.5B-Instruct-GGUF", "Falcon-H1-1.5B-Instruct-Q4_K_M.gguf")],
    },
    Model {
        name: "ernie-4.5-21b-a3b",
        aliases: &["ernie-4.5:21b-a3b"],
        architecture: "ernie4_5-moe",
        context: 131_072,
        default: "Q4_K_M",
        files: &[unchecked("Q4_K_M", "unsloth/ERNIE-4.5-21B-A3B-PT-GGUF", "ERNIE-4.5-21B-A3B-PT-Q4_K_M.gguf")],
    },
];

/// What a short name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice<'a> {
    /// The row.
    pub model: &'static Model,
    /// The repository.
    pub repo: &'static str,
    /// The quantisation.
    pub quant: &'a str,
    /// The file, if the row lists it.
    pub file: Option<&'static File>,
}

/// Reads a short name.
pub fn find(text: &str) -> Option<Choice<'_>> {
    MODELS.iter().find_map(|model| model.names().find_map(|name| model.read(text, name)))
}

/// Names like this one, the likeliest first.
pub fn alike(text: &str, others: impl Iterator<Item = String>) -> Vec<String> {
    let text = text.to_lowercase();
    let names = MODELS.iter().flat_map(|model| {
        let whole = |name: &str| {
            let name = name.to_owned();
            let quants = model.files.iter().map({
                let name = name.clone();
                move |file| format!("{name}-{}", file.quant)
            });
            std::iter::once(name).chain(quants).collect::<Vec<_>>()
        };
        model.names().flat_map(whole)
    });
    let score = |name: &str| strsim::normalized_damerau_levenshtein(&text, &name.to_lowercase());
    let mut scored: Vec<(f64, String)> = names.chain(others).map(|name| (score(&name), name)).collect();
    scored.retain(|(score, _)| *score >= 0.6);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().map(|(_, name)| name).take(3).collect()
}

impl Model {
    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The file that is taken when no quantisation is named.
    pub fn default_file(&self) -> Option<&'static File> {
        self.file(self.default, None)
    }

    /// The file of a quantisation, of a publisher if one is named.
    fn file(&self, quant: &str, publisher: Option<&str>) -> Option<&'static File> {
        let files: &'static [File] = self.files;
        files.iter().find(|file| {
            file.quant.eq_ignore_ascii_case(quant)
                && publisher.is_none_or(|publisher| file.publisher().eq_ignore_ascii_case(publisher))
        })
    }

    /// Reads a text that begins with one of the names.
    fn read<'a>(&'static self, text: &'a str, name: &str) -> Option<Choice<'a>> {
        let rest = strip(text, name)?;
        if rest.is_empty() {
            let file = self.default_file()?;
            return Some(Choice { model: self, repo: file.repo, quant: file.quant, file: Some(file) });
        }
        let rest = rest.strip_prefix(['-', ':'])?;
        let by_publisher = self.files.iter().find_map(|file| Some((file, strip(rest, file.publisher())?)));
        let (publisher, quant) = match by_publisher {
            None => (None, rest),
            Some((file, "")) => {
                let file = self.file(self.default, Some(file.publisher())).unwrap_or(file);
                return Some(Choice { model: self, repo: file.repo, quant: file.quant, file: Some(file) });
            }
            Some((file, quant)) => (Some(file), quant.strip_prefix(['-', ':'])?),
        };
        if !quant::is_quant(quant) {
            return None;
        }
        let file = self.file(quant, publisher.map(File::publisher));
        let repo = file.or(publisher).or(self.default_file())?.repo;
        Some(Choice { model: self, repo, quant, file })
    }
}

impl File {
    /// Whose repository it is.
    pub fn publisher(&self) -> &'static str {
        self.repo.split('/').next().unwrap_or(self.repo)
    }
}

/// What follows a prefix, in whatever case.
fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn file_of(text: &str) -> (&'static str, &'static str) {
        let file = find(text).unwrap_or_else(|| panic!("{text}")).file.unwrap_or_else(|| panic!("{text}"));
        (file.repo, file.file)
    }

    #[test]
    fn names_are_read() {
        let glm = ("unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q4_0.gguf");
        for name in ["glm-4.7:flash-Q4_0", "glm-4.7:flash-unsloth-Q4_0", "glm-4.7-flash:q4_0", "GLM-4.7-Flash-q4_0"] {
            assert_eq!(file_of(name), glm, "{name}");
        }
        assert_eq!(file_of("glm-4.7:flash").1, "GLM-4.7-Flash-Q4_K_M.gguf");
        assert_eq!(file_of("glm-4.7:flash-bartowski").1, "zai-org_GLM-4.7-Flash-Q4_0.gguf");
        assert_eq!(file_of("glm-4.7-flash-bartowski-Q4_0").1, "zai-org_GLM-4.7-Flash-Q4_0.gguf");
        assert_eq!(file_of("ds2-lite").1, "DeepSeek-V2-Lite-Chat.Q4_K_M.gguf");
        assert_eq!(file_of("deepseek-v2-lite"), file_of("ds2-lite"));
        assert_eq!(file_of("youtu-llm:2b-Q4_0").1, "Youtu-LLM-2B.q4_0.gguf");
        assert_eq!(file_of("youtu-llm:2b").0, "tencent/Youtu-LLM-2B-GGUF");
        assert_eq!(file_of("qwen3:30b-a3b-2507").0, "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF");
        assert_eq!(file_of("gpt-oss:20b").1, "gpt-oss-20b-MXFP4.gguf");
        let unlisted = find("glm-4.7-flash-unsloth-UD-Q4_K_XL").expect("the repository may have it");
        assert_eq!((unlisted.repo, unlisted.quant, unlisted.file), (glm.0, "UD-Q4_K_XL", None));
        for other in ["glm-4.7", "glm-4.7-flashy", "glm-4.7-flash-", "glm-4.7-flash-nobody-Q4_0", "glm-4.7-flash-large"]
        {
            assert_eq!(find(other), None, "{other}");
        }
    }

    #[test]
    fn rows_make_sense() {
        let mut seen = HashSet::new();
        for model in MODELS {
            assert!(model.names().all(|name| seen.insert(name)), "{} has a name twice", model.name);
            assert!(model.default_file().is_some(), "{} has no default", model.name);
            assert!(model.context >= 4096);
            for file in model.files {
                assert_eq!(quant::of_file(file.file).as_deref(), Some(file.quant), "{}", file.file);
                assert_eq!(file.repo.matches('/').count(), 1);
            }
        }
    }

    #[test]
    fn typos() {
        let alike = |text| alike(text, std::iter::once("someone/cached".to_owned()));
        assert_eq!(alike("glm-4.7-flsh")[0], "glm-4.7-flash");
        assert_eq!(alike("glm4.7:flash")[0], "glm-4.7:flash");
        assert_eq!(alike("youtu-lm:2b-Q4_0")[0], "youtu-llm:2b-Q4_0");
        assert_eq!(alike("ds2lite")[0], "ds2-lite");
        assert_eq!(alike("somone/cached")[0], "someone/cached");
        assert!(alike("nothing like it at all").is_empty());
    }
}
