//! A question to the model that comes with the program, or to a file:
//! `cargo run --release -p kernloom --example chat -- "Tell me a story." [MODEL.gguf]`

use kernloom::Engine;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let question = arguments.next().unwrap_or_else(|| "Tell me a story about a fox.".into());
    let mut engine = Engine::builder(arguments.next().unwrap_or_else(|| "kernloom-demo".into())).build()?;
    for text in engine.chat().say(question)? {
        print!("{}", text?);
        std::io::stdout().flush()?;
    }
    println!();
    Ok(())
}
