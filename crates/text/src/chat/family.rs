//! Chat formats for files without a template, recognised by architecture and vocabulary.

use crate::tokenizer::Tokenizer;

/// A way of writing conversations that Kernloom knows by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// GLM-4.7-Flash.
    GlmFlash,
    /// GLM-4 9B and 32B.
    Glm4,
    /// DeepSeek-V2 chat.
    DeepseekV2,
    /// Youtu-LLM.
    Youtu,
    /// ChatML: Qwen 2 and 3, and many others.
    ChatMl,
    /// Llama 3.
    Llama3,
    /// Mistral with control tokens for instructions.
    Mistral,
    /// Llama 2, and Mistral before that.
    Llama2,
    /// RWKV World.
    RwkvWorld,
    /// Text after text: base models.
    Plain,
}

impl Family {
    /// The family of a model, by its architecture and the markers in its vocabulary.
    pub fn of(tokenizer: &Tokenizer) -> Family {
        let has = |text: &str| tokenizer.token_id(text).is_some();
        let glm = has("[gMASK]") && has("<sop>");
        match tokenizer.architecture() {
            "deepseek2" if glm => Family::GlmFlash,
            "deepseek2" if has("<|User|>") && has("<|begin_of_text|>") => Family::Youtu,
            // Later models of this architecture have tokens for roles, and always a template.
            "deepseek2" if has("<｜begin▁of▁sentence｜>") && !has("<｜User｜>") => Family::DeepseekV2,
            "rwkv6" | "rwkv7" => Family::RwkvWorld,
            _ if glm => Family::Glm4,
            _ if has("<|im_start|>") && has("<|im_end|>") => Family::ChatMl,
            _ if has("<|start_header_id|>") && has("<|eot_id|>") => Family::Llama3,
            _ if has("[INST]") && has("[/INST]") => Family::Mistral,
            // No marker tells these from a base model; old chat files are the likelier guess.
            "llama" if has("<s>") && has("</s>") && has("▁") => Family::Llama2,
            _ => Family::Plain,
        }
    }

    /// A family by the name that llama.cpp or its own authors gave its format.
    pub fn named(name: &str) -> Option<Family> {
        Some(match name {
            "glm-4.7-flash" | "glm-flash" => Family::GlmFlash,
            "glm4" | "chatglm4" => Family::Glm4,
            "deepseek" | "deepseek2" => Family::DeepseekV2,
            "youtu" => Family::Youtu,
            "chatml" => Family::ChatMl,
            "llama3" => Family::Llama3,
            "mistral" | "mistral-v1" | "mistral-v3" => Family::Mistral,
            "llama2" | "llama2-sys" => Family::Llama2,
            "rwkv-world" => Family::RwkvWorld,
            "plain" => Family::Plain,
            _ => return None,
        })
    }

    /// The template of the family.
    pub fn template(self) -> &'static str {
        match self {
            Family::GlmFlash => include_str!("builtin/glm_flash.jinja"),
            Family::Glm4 => include_str!("builtin/glm4.jinja"),
            Family::DeepseekV2 => include_str!("builtin/deepseek_v2.jinja"),
            Family::Youtu => include_str!("builtin/youtu.jinja"),
            Family::ChatMl => include_str!("builtin/chatml.jinja"),
            Family::Llama3 => include_str!("builtin/llama3.jinja"),
            Family::Mistral => include_str!("builtin/mistral.jinja"),
            Family::Llama2 => include_str!("builtin/llama2.jinja"),
            Family::RwkvWorld => include_str!("builtin/rwkv_world.jinja"),
            Family::Plain => include_str!("builtin/plain.jinja"),
        }
    }
}
