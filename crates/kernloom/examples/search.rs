//! Which of some texts is most like a question: `cargo run --release --example search -- MODEL.gguf "QUESTION" TEXT...`.
//! A model that ranks is asked for each pair; of others, vectors are compared.

use kernloom::{Engine, Error, Pooling};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, question, texts @ ..] = &arguments[..] else {
        eprintln!("usage: search MODEL.gguf QUESTION TEXT...");
        return Ok(());
    };
    let mut engine = Engine::builder(model).build()?;
    let scores = if engine.config().pooling == Some(Pooling::Rank) {
        engine.rank(question, texts)?
    } else {
        let asked = engine.embed(&[question])?.remove(0);
        let product = |vector: Vec<f32>| asked.iter().zip(&vector).map(|(a, b)| a * b).sum();
        engine.embed(texts)?.into_iter().map(product).collect()
    };
    let mut found: Vec<(f32, &String)> = scores.into_iter().zip(texts).collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (score, text) in found {
        println!("{score:8.4}  {text}");
    }
    Ok(())
}
