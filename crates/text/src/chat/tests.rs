use super::*;
use crate::tokenizer::TokenizerData;
use serde_json::json;
use std::path::Path;

fn user(text: &str) -> Json {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Json {
    json!({ "role": "assistant", "content": text })
}

fn system(text: &str) -> Json {
    json!({ "role": "system", "content": text })
}

fn tool(text: &str) -> Json {
    json!({ "role": "tool", "tool_call_id": "1", "name": "weather", "content": text })
}

/// An assistant that calls `weather` with each of the given arguments, in the form of the API.
fn calling(reasoning: &str, arguments: &[&str]) -> Json {
    let call = |arguments: &&str| {
        json!({
            "id": "1",
            "type": "function",
            "function": { "name": "weather", "arguments": arguments },
        })
    };
    let calls: Vec<Json> = arguments.iter().map(call).collect();
    json!({ "role": "assistant", "content": null, "reasoning_content": reasoning, "tool_calls": calls })
}

fn weather() -> Json {
    json!({
        "type": "function",
        "function": { "name": "weather", "description": "für <Ort>", "parameters": { "type": "object" } },
    })
}

fn render(template: &ChatTemplate, messages: &[Json]) -> String {
    let conversation = Conversation::new(messages.to_vec());
    template.render(&conversation).unwrap().text
}

fn of(family: Family) -> ChatTemplate {
    ChatTemplate::of_family(family, "<s>", "</s>").unwrap()
}

/// What both the vendor's template of GLM-4.7-Flash and the built-in one must write.
fn check_glm_flash(template: &ChatTemplate) {
    let text = |messages: &[Json]| render(template, messages);
    assert_eq!(text(&[user("Hi")]), "[gMASK]<sop><|user|>Hi<|assistant|><think>");
    assert_eq!(
        text(&[system("Be brief."), user("Hi"), assistant("Hello"), user("Again")]),
        "[gMASK]<sop><|system|>Be brief.<|user|>Hi<|assistant|></think>Hello<|user|>Again<|assistant|><think>"
    );
    // Reasoning stays only after the last question, whichever way it comes.
    let thought = json!({ "role": "assistant", "content": "B", "reasoning_content": " why " });
    assert_eq!(
        text(&[user("a"), assistant("<think>\nhm\n</think>\n\nA"), user("b"), thought.clone()]),
        "[gMASK]<sop><|user|>a<|assistant|></think>A<|user|>b<|assistant|><think>why</think>B<|assistant|><think>"
    );
    let mut kept = Conversation::new(vec![user("a"), thought, user("b")]);
    kept.variables.insert("clear_thinking".into(), json!(false));
    assert_eq!(
        template.render(&kept).unwrap().text,
        "[gMASK]<sop><|user|>a<|assistant|><think>why</think>B<|user|>b<|assistant|><think>"
    );

    let mut silent = Conversation::new(vec![user("Hi")]);
    for (enable, end, opens) in
        [(None, "<think>", true), (Some(true), "<think>", true), (Some(false), "</think>", false)]
    {
        silent.enable_thinking = enable;
        let prompt = template.render(&silent).unwrap();
        assert_eq!(prompt.text, format!("[gMASK]<sop><|user|>Hi<|assistant|>{end}"));
        assert_eq!(prompt.opens_reasoning, opens);
    }
    silent.add_generation_prompt = false;
    let prompt = template.render(&silent).unwrap();
    assert_eq!((prompt.text.as_str(), prompt.opens_reasoning), ("[gMASK]<sop><|user|>Hi", false));

    let call = r#"{"city": "Köln", "days": 2, "opts": {"a": [1, null, true]}}"#;
    let mut tools = Conversation::new(vec![
        system("Sys"),
        user("Weather?"),
        calling("need it", &[call, r#"{"city": "Bonn"}"#]),
        tool(r#"{"t": 20}"#),
        tool("rain"),
    ]);
    tools.tools = vec![weather()];
    let text = template.render(&tools).unwrap().text;
    let (head, rest) = text.rsplit_once("</tools>").unwrap();
    assert!(head.starts_with("[gMASK]<sop><|system|>\n# Tools\n"), "{head}");
    let listed = concat!(
        "<tools>\n",
        r#"{"type": "function", "function": {"name": "weather", "description": "für <Ort>", "#,
        r#""parameters": {"type": "object"}}}"#,
        "\n"
    );
    assert!(head.ends_with(listed), "{head}");
    let (how, turns) = rest.split_once("<|system|>").unwrap();
    assert!(how.contains("<tool_call>") && how.ends_with("</tool_call>"), "{how}");
    assert_eq!(
        turns,
        concat!(
            "Sys<|user|>Weather?<|assistant|><think>need it</think>",
            "<tool_call>weather<arg_key>city</arg_key><arg_value>Köln</arg_value>",
            "<arg_key>days</arg_key><arg_value>2</arg_value>",
            r#"<arg_key>opts</arg_key><arg_value>{"a": [1, null, true]}</arg_value></tool_call>"#,
            "<tool_call>weather<arg_key>city</arg_key><arg_value>Bonn</arg_value></tool_call>",
            r#"<|observation|><tool_response>{"t": 20}</tool_response>"#,
            "<tool_response>rain</tool_response><|assistant|><think>",
        )
    );
}

#[test]
fn glm_flash_built_in() {
    check_glm_flash(&of(Family::GlmFlash));
}

/// The vendor's own template, which is not part of this repository.
#[test]
fn glm_flash_as_published() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/templates/GLM-4.7-Flash.jinja");
    match std::fs::read_to_string(&file) {
        Ok(source) => {
            check_glm_flash(&ChatTemplate::parse(&source, "[gMASK]", "<|endoftext|>").unwrap());
            println!("checked the published template of GLM-4.7-Flash");
        }
        Err(_) => println!("skipped: no {}", file.display()),
    }
}

#[test]
fn turns_of_every_family() {
    let turns = [system("Sys"), user("Hi"), assistant("Hello"), user("Again")];
    for (family, expected) in [
        (Family::Glm4, "[gMASK]<sop><|system|>\nSys<|user|>\nHi<|assistant|>\nHello<|user|>\nAgain<|assistant|>\n"),
        (Family::DeepseekV2, "<s>Sys\n\nUser: Hi\n\nAssistant: Hello</s>User: Again\n\nAssistant:"),
        (Family::Youtu, "<|begin_of_text|>Sys<|User|>Hi<|Assistant|>Hello<|end_of_text|><|User|>Again<|Assistant|>"),
        (
            Family::ChatMl,
            "<|im_start|>system\nSys<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n\
             <|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nAgain<|im_end|>\n\
             <|im_start|>assistant\n",
        ),
        (
            Family::Llama3,
            "<s><|start_header_id|>system<|end_header_id|>\n\nSys<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\nAgain<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (Family::Mistral, "<s>[INST] Sys\n\nHi[/INST] Hello</s>[INST] Again[/INST]"),
        (Family::Llama2, "<s>[INST] <<SYS>>\nSys\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Again [/INST]"),
        (Family::RwkvWorld, "System: Sys\n\nUser: Hi\n\nAssistant: Hello\n\nUser: Again\n\nAssistant:"),
        (Family::Plain, "<s>Sys\nHi\nHello\nAgain"),
    ] {
        assert_eq!(render(&of(family), &turns), expected, "{family:?}");
    }
}

#[test]
fn thinking_of_the_other_families() {
    let ask = |family: Family, messages: &[Json]| {
        let mut conversation = Conversation::new(messages.to_vec());
        conversation.enable_thinking = Some(false);
        of(family).render(&conversation).unwrap().text
    };
    assert_eq!(ask(Family::Youtu, &[user("Hi")]), "<|begin_of_text|><|User|>Hi<|Assistant|><think>\n\n</think>\n\n");
    assert_eq!(
        ask(Family::ChatMl, &[user("Hi")]),
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    );
    let history = [user("a"), assistant("<think>\nx\n</think>\n\nA"), user("b")];
    assert_eq!(
        render(&of(Family::Youtu), &history),
        "<|begin_of_text|><|User|>a<|Assistant|>A<|end_of_text|><|User|>b<|Assistant|>"
    );
    assert_eq!(
        render(&of(Family::ChatMl), &history),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n\
         <|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn tools_of_the_other_families() {
    let messages =
        [user("Weather?"), calling("", &[r#"{"city": "Köln"}"#, r#"{"city": "Bonn"}"#]), tool("20"), tool("rain")];
    let ask = |family: Family| {
        let mut conversation = Conversation::new(messages.to_vec());
        conversation.tools = vec![weather()];
        of(family).render(&conversation).unwrap().text
    };
    let youtu = ask(Family::Youtu);
    assert!(youtu.starts_with("<|begin_of_text|><|begin_of_tool_description|>"));
    assert!(youtu.ends_with(concat!(
        "<|end_of_tool_description|><|User|>Weather?<|Assistant|>",
        r#"<tool_call>{"name": "weather", "arguments": {"city": "Köln"}}</tool_call>"#,
        "\n",
        r#"<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call>"#,
        "<|end_of_text|><|User|><tool_response>20</tool_response>\n",
        "<tool_response>rain</tool_response><|Assistant|>",
    )));
    let chatml = ask(Family::ChatMl);
    assert!(chatml.contains("</tools>"));
    assert!(chatml.ends_with(concat!(
        "<|im_start|>assistant\n<tool_call>\n",
        r#"{"name": "weather", "arguments": {"city": "Köln"}}"#,
        "\n</tool_call>\n<tool_call>\n",
        r#"{"name": "weather", "arguments": {"city": "Bonn"}}"#,
        "\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n20\n</tool_response>\n",
        "<tool_response>\nrain\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    )));
    for family in [Family::Llama3, Family::Glm4] {
        let text = ask(family);
        assert!(text.contains("für <Ort>") && text.contains("Köln") && text.contains("rain"));
    }
    // A format without tools says so rather than losing them.
    for family in [Family::DeepseekV2, Family::Llama2, Family::Mistral] {
        let refused = of(family).render(&Conversation::new(messages.to_vec()));
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("no role tool"), "{family:?}: {error}");
    }
}

#[test]
fn messages_take_the_form_that_the_template_wants() {
    let call = calling("", &[r#"{"city":"Köln"}"#]);
    let conversation = [user("a"), call, tool("x")];
    let parse = |source: &str| ChatTemplate::parse(source, "", "").unwrap();
    // One that prints arguments as they are wants text.
    let text = parse(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}\
         {{ 'call ' + c['function']['arguments'] }}{% endfor %};{% endfor %}",
    );
    assert_eq!(render(&text, &conversation), r#"a;call {"city":"Köln"};x;"#);
    // The same without the +, which would print a Python dict.
    let loose = parse(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}\
         {{ c.function.arguments }}{% endfor %};{% endfor %}",
    );
    assert_eq!(render(&loose, &conversation), r#"a;{"city":"Köln"};x;"#);
    // One that goes through them wants an object.
    let object = parse(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}\
         {% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %};{% endfor %}",
    );
    assert_eq!(render(&object, &conversation), "a;city=Köln;x;");
    let odd = calling("", &["", "not json"]);
    let odd = object.render(&Conversation::new(vec![user("a"), odd]));
    assert!(matches!(odd, Err(ChatError::Template(TemplateError::Evaluation { .. }))));

    let parts = json!({ "role": "user", "content": [
        { "type": "text", "text": "one " }, "two", { "type": "text", "text": " three" },
    ] });
    assert_eq!(render(&text, std::slice::from_ref(&parts)), "one two three;");
    // One that knows only parts gets parts.
    let parted = parse("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %};{% endfor %}");
    assert_eq!(render(&parted, &[user("a"), parts]), "a;one two three;");
}

#[test]
fn developers_speak_as_the_system_unless_the_template_knows_them() {
    let messages = [json!({ "role": "developer", "content": "Be brief" }), user("a")];
    assert_eq!(render(&of(Family::Plain), &messages), render(&of(Family::Plain), &[system("Be brief"), user("a")]));
    let roles = "{% for m in messages %}{{ m.role }};{% endfor %}";
    let said = |source: &str| render(&ChatTemplate::parse(source, "", "").unwrap(), &messages);
    assert_eq!(said(roles), "system;user;");
    assert_eq!(said(&format!("{{# system or developer #}}{roles}")), "developer;user;");
}

#[test]
fn senseless_messages_are_refused() {
    let template = of(Family::ChatMl);
    for (message, reason) in [
        (json!("hi"), "message 1 cannot be used: it is not an object"),
        (json!({ "content": "hi" }), "message 1 cannot be used: it has no role"),
        (json!({ "role": 5 }), "message 1 cannot be used: it has no role"),
        (json!({ "role": "assistant", "tool_calls": "x" }), "message 1 cannot be used: its tool_calls are not a list"),
    ] {
        let conversation = Conversation::new(vec![user("a"), message]);
        let error = template.render(&conversation).unwrap_err();
        assert_eq!(error.to_string(), reason);
    }
    // Null counts as empty.
    let empty = json!({ "role": "assistant", "content": null, "tool_calls": null });
    assert!(render(&template, &[empty]).starts_with("<|im_start|>assistant\n<|im_end|>"));
}

#[test]
fn limits_of_a_template_hold() {
    let template = ChatTemplate::parse("{% for i in range(99999) %}x{% endfor %}", "", "").unwrap();
    let template = template.with_limits(Limits { steps: 1000, ..Limits::default() });
    let error = template.render(&Conversation::new(vec![])).unwrap_err();
    let expected = ChatError::Template(TemplateError::Limit { line: 1, limit: Limit::Steps });
    assert_eq!(error, expected);
    let words = "chat template, line 1: the template takes too many steps";
    assert_eq!(error.to_string(), words);
}

/// A vocabulary of markers.
fn model(architecture: &str, markers: &[&str], template: Option<&str>) -> Tokenizer {
    let mut data = TokenizerData {
        model: "llama".into(),
        architecture: architecture.into(),
        chat_template: template.map(str::to_owned),
        bos: Some(0),
        eos: Some(1),
        add_space_prefix: Some(false),
        ..TokenizerData::default()
    };
    let letters = ["H", "i", "\n", "▁"];
    for (token, kind) in
        ["<s>", "</s>"].iter().chain(markers).map(|token| (token, 3)).chain(letters.iter().map(|token| (token, 1)))
    {
        data.tokens.push(token);
        data.token_type.push(kind);
        data.scores.push(0.0);
    }
    Tokenizer::new(data).unwrap()
}

#[test]
fn families_are_recognised() {
    for (architecture, markers, family) in [
        ("deepseek2", &["[gMASK]", "<sop>", "<|user|>"][..], Family::GlmFlash),
        ("deepseek2", &["<|begin_of_text|>", "<|User|>"], Family::Youtu),
        ("deepseek2", &["<｜begin▁of▁sentence｜>"], Family::DeepseekV2),
        ("deepseek2", &[], Family::Plain),
        ("glm4", &["[gMASK]", "<sop>"], Family::Glm4),
        ("chatglm", &["[gMASK]", "<sop>"], Family::Glm4),
        ("qwen3", &["<|im_start|>", "<|im_end|>"], Family::ChatMl),
        ("llama", &["<|start_header_id|>", "<|eot_id|>"], Family::Llama3),
        ("llama", &["[INST]", "[/INST]"], Family::Mistral),
        ("llama", &[], Family::Llama2),
        ("rwkv7", &[], Family::RwkvWorld),
        ("gpt2", &[], Family::Plain),
    ] {
        assert_eq!(Family::of(&model(architecture, markers, None)), family, "{architecture}");
    }
}

#[test]
fn a_model_speaks_its_own_template_or_its_familys() {
    let markers = ["<|im_start|>", "<|im_end|>"];
    let own = model("qwen2", &markers, Some("{{ bos_token }}{{ messages[0].content }}"));
    let template = ChatTemplate::of_model(&own).unwrap();
    assert_eq!(template.family(), None);
    let prompt = render(&template, &[user("Hi")]);
    assert_eq!(prompt, "<s>Hi");
    // The template wrote the beginning: the tokenizer adds no second one.
    assert!(own.adds_bos());
    let ids = own.encode(&prompt, true, true);
    assert_eq!(ids.iter().filter(|&&id| Some(id) == own.bos()).count(), 1);

    let by_name = ChatTemplate::of_model(&model("rwkv7", &[], Some("rwkv-world"))).unwrap();
    assert_eq!(by_name.family(), Some(Family::RwkvWorld));

    let without = model("qwen2", &markers, None);
    let template = ChatTemplate::of_model(&without).unwrap();
    assert_eq!(template.family(), Some(Family::ChatMl));
    // No <think> in the vocabulary: nothing to switch off.
    let mut conversation = Conversation::new(vec![user("Hi")]);
    conversation.enable_thinking = Some(false);
    let prompt = template.render(&conversation).unwrap().text;
    assert!(prompt.ends_with("<|im_start|>assistant\n"));

    let broken = model("qwen2", &markers, Some("{% if %}"));
    let error = ChatTemplate::of_model(&broken).unwrap_err();
    assert!(matches!(error, ChatError::Template(TemplateError::Syntax { line: 1, .. })));
}

#[test]
fn thoughts_are_closed_where_the_template_has_no_switch() {
    let template = ChatTemplate::parse("{{ messages[0].content ~ '<think>\n' }}", "", "").unwrap();
    let mut conversation = Conversation::new(vec![user("Hi")]);
    let prompt = template.render(&conversation).unwrap();
    assert_eq!((prompt.text.as_str(), prompt.opens_reasoning), ("Hi<think>\n", true));
    conversation.enable_thinking = Some(false);
    let prompt = template.render(&conversation).unwrap();
    assert_eq!((prompt.text.as_str(), prompt.opens_reasoning), ("Hi<think>\n</think>", false));
}

#[test]
fn who_says_nothing_gets_what_the_template_means() {
    let ends = |source: &str, thinking: Option<bool>| {
        let template = ChatTemplate::parse(source, "", "").unwrap();
        let mut conversation = Conversation::new(vec![user("Hi")]);
        conversation.enable_thinking = thinking;
        template.render(&conversation).unwrap().text
    };
    let told = "{{ 'a<think>' }}{% if not enable_thinking %}{{ '</think>' }}{% endif %}";
    let off = "{{ 'a' ~ ('<think>' if enable_thinking is defined and enable_thinking else '</think>') }}";
    let on = "{{ 'a' ~ ('<think>' if enable_thinking|default(true) else '</think>') }}";
    let other = "{{ 'a' ~ ('<think>' if thinking else '</think>') }}";
    for (source, unsaid) in [(told, true), (off, false), (on, true), (other, false)] {
        for (thinking, thinks) in [(None, unsaid), (Some(true), true), (Some(false), false)] {
            assert_eq!(ends(source, thinking).ends_with("<think>"), thinks, "{source} {thinking:?}");
        }
    }
}

#[test]
fn templates_that_know_no_tools_get_them_as_text() {
    let said = |source: &str, tools: Vec<Json>| {
        let template = ChatTemplate::parse(source, "", "").unwrap();
        let mut conversation = Conversation::new(vec![user("Hi")]);
        conversation.tools = tools;
        template.render(&conversation).unwrap().text
    };
    let text = "{{ 'Functions: ' + functions }}";
    assert_eq!(said(text, vec![]), "Functions: ");
    let listed = said(text, vec![weather()]);
    assert!(listed.starts_with("Functions: [\n  {") && listed.contains("\"name\": \"weather\""), "{listed}");
    // One that goes through them without asking gets an empty list where others get null.
    assert_eq!(said("{{ tools|length }}", vec![]), "0");
    // One that knows them has no other form of them.
    assert_eq!(said("{{ tools is none }}{{ functions is defined }}", vec![]), "TrueFalse");
}

#[test]
fn templates_find_the_day() {
    let template = ChatTemplate::parse("{{ date_string }}, {{ datetime }}", "", "").unwrap();
    let mut conversation = Conversation::new(vec![user("Hi")]);
    conversation.now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(40 * 86_400);
    assert_eq!(template.render(&conversation).unwrap().text, "10 Feb 1970, Feb 10 1970");
    conversation.variables.insert("datetime".into(), "noon".into());
    assert_eq!(template.render(&conversation).unwrap().text, "10 Feb 1970, noon");
}

#[test]
fn the_form_of_calls_is_what_the_template_repeats() {
    for (family, form) in [
        (Family::GlmFlash, CallForm::Pairs),
        (Family::Youtu, CallForm::Tagged),
        (Family::ChatMl, CallForm::TaggedLines),
        (Family::Llama3, CallForm::Bare),
        (Family::Plain, CallForm::Tagged),
    ] {
        assert_eq!(of(family).call_form(), form, "{family:?}");
    }
}

#[test]
fn a_template_shows_what_can_be_asked_of_its_model() {
    for (source, tools, thinks) in [
        ("{{ messages[0].content }}", false, false),
        ("{% if tools %}{{ tools }}{% endif %}", true, false),
        ("{{ functions }}", true, false),
        ("{% if enable_thinking %}hm{% endif %}", false, true),
        ("{% if thinking is defined %}hm{% endif %}", false, true),
        ("{% if add_generation_prompt %}<think>{% endif %}", false, true),
    ] {
        let template = ChatTemplate::parse(source, "", "").expect(source);
        assert_eq!((template.takes_tools(), template.can_think()), (tools, thinks), "{source}");
    }
}
