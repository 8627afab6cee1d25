//! Models by name: downloaded from a hub on this machine, listed, used, removed.

use crate::support::{Run, finished, folder, text, tiny};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::local_hub::{Faults, LocalHub};

/// A hub, and the cache of one test.
struct Place {
    hub: LocalHub,
    home: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let home = folder().join(format!("hub-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).expect("a folder");
        Place { hub: LocalHub::start(), home }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::support::command(args);
        for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"] {
            command.env_remove(name);
        }
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        command.env("HF_ENDPOINT", &self.hub.endpoint).env("HF_HOME", &self.home);
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        finished(self.command(args).output().expect("the program starts"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn model() -> Vec<u8> {
    std::fs::read(tiny("tiny-llama", "q4_0")).expect("a model")
}

fn json(run: &Run) -> Value {
    serde_json::from_str(run.text()).expect("JSON")
}

#[test]
fn a_model_from_its_name_to_an_answer_and_away() {
    let place = Place::new("way");
    let model = model();
    place.hub.add("unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q4_0.gguf", &model);
    place.hub.add("unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q8_0.gguf", &model[..5000]);
    let name = "glm-4.7:flash-Q4_0";
    let shown = place.run(&["show", name]).ok();
    assert!(shown.text().contains("not here") && shown.text().contains("(unchecked)"), "{}", shown.text());
    let offline = place.run(&["run", name, "--offline", "-p", "x"]);
    assert!(offline.error(1).contains(&format!("kernloom pull {name}")), "{}", offline.err);
    assert_eq!(place.hub.seen().len(), 0);

    let ran = place.run(&["run", name, "--no-template", "-p", "x", "-n", "2", "--temp", "0"]).ok();
    assert!(ran.err.contains("downloading GLM-4.7-Flash-Q4_0.gguf from unsloth/GLM-4.7-Flash-GGUF: "), "{}", ran.err);
    assert!(ran.err.contains("unchecked") && ran.err.contains("its hash is right"), "{}", ran.err);
    assert!(!ran.err.contains('\x1b'), "no bar where nobody watches");
    place.hub.seen();
    let again = place.run(&["run", "glm-4.7-flash:q4_0", "--no-template", "-p", "x", "-n", "2", "--temp", "0"]).ok();
    assert_eq!(again.out, ran.out);
    // A model that is named is found as everywhere, and one that is not here is one of those that failed.
    let references = place.home.join("references");
    let args = ["smoke", "--offline", "--json", "-n", "2", "--references", text(&references), name, "no/such"];
    let smoked = place.run(&args);
    let rows = json(&smoked);
    let outcomes: Vec<_> = rows.as_array().expect("rows").iter().map(|row| (&row["model"], &row["outcome"])).collect();
    assert!(outcomes[1] == (&name.into(), &"new".into()) && outcomes[2].1 == "FAILED", "{outcomes:?}");
    assert!(!again.err.contains("downloading"), "{}", again.err);
    let by_path = place.run(&["tokenize", "-m", text(&tiny("tiny-llama", "q4_0")), "a fox"]).ok();
    for name in ["unsloth/GLM-4.7-Flash-GGUF", "GLM-4.7-Flash-Q4_0.gguf", "glm-4.7:flash-unsloth-Q4_0"] {
        assert_eq!(place.run(&["tokenize", "--offline", "-m", name, "a fox"]).ok().out, by_path.out, "{name}");
    }
    let file = ["-hf", "unsloth/GLM-4.7-Flash-GGUF", "-hff", "GLM-4.7-Flash-Q4_0.gguf"];
    let of_file = |first: &[&str]| place.run(&[&["tokenize", "--offline"], first, &["a fox"]].concat());
    assert_eq!(of_file(&file).ok().out, by_path.out);
    assert!(of_file(&["-m", name, "--hf-file", "x.gguf"]).error(2).contains("goes with a repository"));
    assert_eq!(place.hub.seen().len(), 0, "what is here needs no network");

    let listed = place.run(&["ls"]).ok();
    assert!(listed.text().contains("unsloth/GLM-4.7-Flash-GGUF  Q4_0"), "{}", listed.text());
    assert!(listed.text().contains("just now") && listed.err.contains(text(&place.home)), "{}", listed.text());
    let listed = json(&place.run(&["ls", "--json"]).ok());
    assert_eq!(listed["models"][0]["name"], "unsloth/GLM-4.7-Flash-GGUF:Q4_0");
    assert_eq!(listed["models"][0]["bytes"], model.len());
    let path = listed["models"][0]["path"].as_str().expect("a path");
    assert_eq!(std::fs::read(path).expect("the model"), model);

    let pulled = place.run(&["pull", name]).ok();
    assert_eq!(pulled.text().trim_end(), path);
    assert!(pulled.err.contains("newest version"), "{}", pulled.err);
    let refused = place.run(&["rm", name]);
    assert!(refused.error(2).contains("give -y"), "{}", refused.err);
    assert!(Path::new(path).is_file());
    let removed = place.run(&["rm", name, "-y"]).ok();
    assert!(removed.err.contains("removed unsloth/GLM-4.7-Flash-GGUF:Q4_0"), "{}", removed.err);
    assert!(json(&place.run(&["ls", "--json"]).ok())["models"].as_array().expect("a list").is_empty());
    assert!(!place.home.join("hub/models--unsloth--GLM-4.7-Flash-GGUF").exists());
    place.run(&["rm", name, "-y"]).error(1);
}

#[test]
fn downloads_that_fail_are_one_line() {
    let place = Place::new("fail");
    place.hub.add("a/b", "m-Q4_0.gguf", &model());
    place.hub.add("a/hidden", "m-Q4_0.gguf", &model());
    place.hub.hide("a/hidden", "hf_good");
    let error = |args: &[&str]| place.run(args).error(1).to_owned();
    let typo = error(&["run", "glm-4.7-flsh", "-p", "x"]);
    assert!(typo.contains("did you mean glm-4.7-flash"), "{typo}");
    assert!(error(&["pull", "nothing-like-it"]).contains("kernloom ls --all"));
    assert!(error(&["serve", "a/b:Q9_0"]).contains("it has: Q4_0"));
    assert!(error(&["bench", "-m", "a/none"]).contains("no repository a/none"));
    assert!(error(&["pull", "glm-4.7-flash"]).contains("table of short names"));
    assert!(error(&["show", "a/b"]).contains("`kernloom pull` gets it"));
    assert!(error(&["quantize", "a/hidden", "x.gguf", "q8_0"]).contains("HF_TOKEN"));
    assert!(error(&["rm", "-y", "glm-4.7-flsh"]).contains("did you mean"));
    assert!(error(&["rm", "-y", "a/b"]).contains("not in the cache"));
    place.run(&["pull", "kernloom-demo"]).error(2);
    place.run(&["pull", "./m.gguf"]).error(2);

    place.hub.fault(Faults { wrong: 9, ..Faults::default() });
    assert!(error(&["pull", "a/b"]).contains("thrown away"));
    place.hub.fault(Faults { cut: Some((1000, 1)), ..Faults::default() });
    let pulled = place.run(&["pull", "a/b"]).ok();
    assert!(pulled.err.contains("trying again"), "{}", pulled.err);

    let secret = finished(place.command(&["pull", "a/hidden"]).env("HF_TOKEN", "hf_bad").output().expect("it starts"));
    assert!(secret.error(1).contains("refuses the token from HF_TOKEN"), "{}", secret.err);
    assert!(!secret.err.contains("hf_bad"));
    let seen = finished(place.command(&["pull", "a/hidden"]).env("HF_TOKEN", "hf_good").output().expect("it starts"));
    seen.ok();
    let outside = place.hub.seen().into_iter().filter(|seen| seen.server == "store");
    assert!(outside.into_iter().all(|seen| seen.authorization.is_none()));
}

#[test]
fn the_table_is_listed() {
    let place = Place::new("table");
    let listed = place.run(&["ls", "--all"]).ok();
    for name in ["glm-4.7-flash", "glm-4.7:flash", "deepseek-v2-lite", "ds2-lite", "youtu-llm:2b", "unchecked"] {
        assert!(listed.text().contains(name), "{name} in {}", listed.text());
    }
    let known = json(&place.run(&["ls", "--all", "--json"]).ok());
    assert_eq!(known["known"][0]["files"][0]["checked"], false);
}
