// Colours of code, without a browser: what has one, that nothing is lost, and that no code takes long.
import assert from 'node:assert/strict';
import test from 'node:test';
import { highlight } from './page/highlight.js';

/** What has a colour, as `kind:text`. */
const marks = (language, code) => highlight(code, language).filter((part) => part.kind).map(({ kind, text }) => `${kind}:${text}`);

test('what has a colour', () => {
  for (const [language, code, expected] of [
    ['rust', "fn f<'a>(x: &'a str) -> char { '\\'' } // \"no\"", ['keyword:fn', 'keyword:str', 'keyword:char', "string:'\\''", 'comment:// "no"']],
    ['rs', '/* a /* b */ c */ r#"x"y"# 0xff_u8 1.5e3f64', ['comment:/* a /* b */ c */', 'string:r#"x"y"#', 'number:0xff_u8', 'number:1.5e3f64']],
    ['rust', '#[derive(Debug)]\nstruct S;', ['keyword:#[derive(Debug)]', 'keyword:struct']],
    ['c', '#include <a.h>\nint a = 10UL; /* x\ny */ "a\\"b"', ['keyword:#include', 'keyword:int', 'number:10UL', 'comment:/* x\ny */', 'string:"a\\"b"']],
    ['C++', 'auto x1 = 2.5f;', ['keyword:auto', 'number:2.5f']],
    ['python', '@cache\ndef f(x): # "no"\n  return """a\n"b" """ + \'c\'', ['keyword:@cache', 'keyword:def', 'comment:# "no"', 'keyword:return', 'string:"""a\n"b" """', "string:'c'"]],
    ['js', 'const a = `x\n${y}`; // c', ['keyword:const', 'string:`x\n${y}`', 'comment:// c']],
    ['go', 'func main() { x := "s" }', ['keyword:func', 'string:"s"']],
    ['bash', 'for f in "$a"; do echo $f ${b#x}; done # all\necho a#b', ['keyword:for', 'keyword:in', 'string:"$a"', 'keyword:do', 'keyword:echo', 'number:$f', 'number:${b#x}', 'keyword:done', 'comment:# all', 'keyword:echo']],
    ['json', '{"a": "b", "c": [-1.5e3, true]}', ['key:"a"', 'string:"b"', 'key:"c"', 'number:-1.5e3', 'keyword:true']],
    ['yaml', '# x\na-b: yes\n  - c: "d"', ['comment:# x', 'key:a-b', 'keyword:yes', 'key:c', 'string:"d"']],
    ['toml', '[table]\nkey = 1', ['keyword:[table]', 'key:key', 'number:1']],
    ['html', '<!-- c --><a href="x">it\'s &amp; so</a>', ['comment:<!-- c -->', 'keyword:<a', 'string:"x"', 'keyword:>', 'number:&amp;', 'keyword:</a', 'keyword:>']],
    ['sql', "select a FROM b WHERE c = 'it''s' -- x", ['keyword:select', 'keyword:FROM', 'keyword:WHERE', "string:'it''s'", 'comment:-- x']],
    ['css', '.a { color: #fff; margin: 1px }', ['keyword:color', 'number:#fff', 'keyword:margin', 'number:1px']],
    ['diff', '--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z', ['comment:--- a', 'comment:+++ b', 'comment:@@ -1 +1 @@', 'removed:-x', 'added:+y']],
    ['', 'if x', []],
    ['unknown', 'if x', []],
    ['constructor', 'if x', []],
  ]) {
    assert.deepEqual(marks(language, code), expected, `${language}: ${code}`);
  }
});

test('nothing is lost, and no code takes long', () => {
  const pieces = ['"', "'", '`', '/*', '/* /*', '*/', '//', '#', '\\', '"\\', '<', '<!--', '="', "='", '&', '-', '--', '$', '${', 'r#"', '"""', "'''", "'a", '1', '1.', '1e', '0x', '1_', 'a1', 'é', '_', '@', '+', '\n+', '\n-', '\n#', '\n[', '\n ', ' :', 'a:', '"a":', '"a" ', "''", '\ud800', '{', '1z', 'if '];
  for (const language of ['c', 'rust', 'python', 'js', 'bash', 'sql', 'json', 'yaml', 'html', 'css', 'diff']) {
    for (const piece of pieces) {
      for (const code of [piece.repeat(200_000 / piece.length), `${piece.repeat(1000)}\n${'x'.repeat(100_000)}${piece}`]) {
        const began = performance.now();
        const parts = highlight(code, language);
        const ms = performance.now() - began;
        assert.ok(ms < 2000, `${language} ${JSON.stringify(piece)} took ${ms} ms`);
        if (process.env.SHOW && ms > 60) console.log(language, JSON.stringify(piece), ms.toFixed(0));
        assert.ok(parts.map((part) => part.text ?? part).join('') === code, `${language} ${JSON.stringify(piece)}`);
      }
    }
  }
  assert.equal(highlight('"a" '.repeat(1_000_000), 'c').length, 1);
});
