use crate::chat::jinja::{Limits, Marked, Template};
use crate::chat::words::Words;
use serde_json::{Value as Json, json};
use std::time::UNIX_EPOCH;

fn render(template: &str, data: &Json) -> Option<Marked> {
    let own = json!("Own");
    let data = data.as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value, Words::Data));
    let variables: Vec<_> = data.chain([("o", &own, Words::Template)]).collect();
    let limits = Limits { steps: 1_000_000, ..Limits::default() };
    Template::parse(template).ok()?.render(&variables, limits, UNIX_EPOCH).ok()
}

/// The output of an expression with `[` and `]` around data.
fn marked(expression: &str) -> String {
    let data = json!({ "d": "ab cd", "l": "x\ny\n", "list": ["p", "q"], "map": { "k": "v" }, "n": 5, "f": "%s|{}" });
    let made = render(&format!("{{{{ {expression} }}}}"), &data).unwrap_or_else(|| panic!("{expression} fails"));
    let (mut shown, mut from) = (String::new(), 0);
    for range in &made.data {
        assert!(range.start < range.end && (from == 0 || from < range.start), "{expression}: {:?}", made.data);
        shown += &format!("{}[{}]", &made.text[from..range.start], &made.text[range.clone()]);
        from = range.end;
    }
    shown + &made.text[from..]
}

#[test]
fn every_operation_keeps_the_marks() {
    for (expression, expected) in [
        ("d", "[ab cd]"),
        ("o", "Own"),
        ("'x' ~ d ~ 'y' ~ o", "x[ab cd]yOwn"),
        ("'x' + d + d", "x[ab cdab cd]"),
        ("n ~ d", "5[ab cd]"),
        ("('x' ~ d) * 2", "x[ab cd]x[ab cd]"),
        ("d * 2", "[ab cdab cd]"),
        ("('x' ~ d)[1:]", "[ab cd]"),
        ("('x' ~ d ~ 'yz')[:-1]", "x[ab cd]y"),
        ("('x' ~ d ~ 'yz')[2:4]", "[b ]"),
        ("('x' ~ d ~ 'yz')[9:]", ""),
        ("('x' ~ d)[::-1]", "[dc bax]"),
        ("('x' ~ o)[::-1]", "nwOx"),
        ("('x' ~ d)[0]", "x"),
        ("('x' ~ d)[-1]", "[d]"),
        ("(' ' ~ d ~ ' ').strip()", "[ab cd]"),
        ("('x' ~ d).lstrip('xa')", "[b cd]"),
        ("(d ~ ' ') | trim", "[ab cd]"),
        ("(d ~ 'x').replace(' ', 'Y')", "[ab]Y[cd]x"),
        ("'x y' | replace(' ', d)", "x[ab cd]y"),
        ("('x' ~ d).split(' ') | join('-')", "x[ab]-[cd]"),
        ("('x' ~ d).split() | join('-')", "x[ab]-[cd]"),
        ("(d ~ '-x-y').rsplit('-', 1) | join('+')", "[ab cd]-x+y"),
        ("(d ~ '-x').partition('-') | join('+')", "[ab cd]+-+x"),
        ("('x-' ~ d).rpartition('-') | join('+')", "x+-+[ab cd]"),
        ("('x' ~ l).splitlines() | join('+')", "x[x]+[y]"),
        ("('x' ~ l).splitlines(true) | join", "x[x\ny\n]"),
        ("('x' ~ d).removeprefix('xa') ~ ('x' ~ d).removesuffix('d')", "[b cd]x[ab c]"),
        ("d | upper ~ o.upper()", "[AB CD]OWN"),
        ("(d ~ o) | upper", "[AB CDOWN]"),
        ("d.title() ~ o | lower", "[Ab Cd]own"),
        ("d | capitalize ~ d.swapcase()", "[Ab cdAB CD]"),
        ("(d ~ o) | escape", "[ab cdOwn]"),
        ("'x' | indent(d, true)", "[ab cd]x"),
        ("l | indent(2)", "[x]\n  [y]\n"),
        ("d | center(7) ~ d.rjust(6, '.')", " [ab cd] .[ab cd]"),
        ("'x'.ljust(3, d[0])", "x[aa]"),
        ("'%s-%d-%5s|' % (d, n, d[0])", "[ab cd]-5-    [a]|"),
        ("'%.2s' % d ~ '%r' % d", "[ab'ab cd']"),
        ("f % o", "Own[|{}]"),
        ("f | format(o)", "Own[|{}]"),
        ("f.format(o)", "[%s|]Own"),
        ("'{}{{}}'.format(d)", "[ab cd]{}"),
        ("list | join(', ')", "[p], [q]"),
        ("'-'.join(list)", "[p]-[q]"),
        ("['x', 'y'] | join(d)", "x[ab cd]y"),
        ("list | first ~ list | last", "[pq]"),
        ("list | map('upper') | join('-')", "[P]-[Q]"),
        ("(list + ['x']) | sort | join('-')", "[p]-[q]-x"),
        ("list", "[['p', 'q']]"),
        ("['x']", "['x']"),
        ("map | tojson", "[{\"k\": \"v\"}]"),
        ("{'x': d} | tojson ~ {'x': o} | tojson", "[{\"x\": \"ab cd\"}]{\"x\": \"Own\"}"),
        ("{'x': [1, d]} | tojson(indent=1)", "[{\n \"x\": [\n  1,\n  \"ab cd\"\n ]\n}]"),
        ("['x', 'y'] | tojson(separators=(d, ''))", "[[\"x\"ab cd\"y\"]]"),
        ("map.items() | map('join', '=') | join", "[k]=[v]"),
        ("map.k ~ map['k'] ~ map.get('x', 'z')", "[vv]z"),
        ("missing | default(d) ~ missing | default('x')", "[ab cd]x"),
        ("('x' ~ d) | list | join('.')", "x.[a].[b].[ ].[c].[d]"),
        ("d | string ~ d | safe", "[ab cdab cd]"),
        ("'%Y' | string ~ strftime_now('%Y')", "%Y1970"),
        ("strftime_now('%Y ' ~ d)", "[1970 ab cd]"),
        ("(d if true else o) ~ (none or d) ~ (d and o)", "[ab cdab cd]Own"),
    ] {
        assert_eq!(marked(expression), expected, "{expression}");
    }
}

#[test]
fn statements_keep_the_marks() {
    let shown = |template: &str| marked(&format!("o }}}}{template}{{{{ o"));
    for (template, expected) in [
        ("<{{ d }}>", "<[ab cd]>"),
        ("{% for c in d[:2] %}{{ c }}.{% endfor %}", "[a].[b]."),
        ("{% set x %}<{{ d }}>{% endset %}{{ x }}{{ x[1:3] }}", "<[ab cd]>[ab]"),
        ("{% set x | replace('<', '') %}<{{ d }}>{% endset %}{{ x }}", "[ab cd]>"),
        ("{% macro m(x) %}({{ x }}{{ caller() if caller }}){% endmacro %}{{ m(d) }}{{ m('y') }}", "([ab cd])(y)"),
        ("{% macro m(x) %}({{ caller() }}){% endmacro %}{% call m(1) %}-{{ d }}{% endcall %}", "(-[ab cd])"),
        ("{% filter trim %} {{ d }} {% endfilter %}", "[ab cd]"),
        (
            "{% set ns = namespace(x='') %}{% for i in list %}{% set ns.x = ns.x ~ i ~ ',' %}{% endfor %}{{ ns.x }}",
            "[p],[q],",
        ),
        ("{% with x = d ~ '.' %}{{ x }}{% endwith %}", "[ab cd]."),
        ("{% if 'ab' in d and d == 'ab cd' %}{{ 'yes' }}{% endif %}", "yes"),
    ] {
        assert_eq!(shown(template), format!("Own{expected}Own"), "{template}");
    }
}

/// A character that only the context has never gets out of it without its mark, whatever a template does.
#[test]
fn no_data_escapes() {
    const TRACE: char = '\u{e000}';
    fn traced(json: &Json) -> Json {
        match json {
            Json::String(text) => format!("{TRACE}{text}{TRACE}").into(),
            Json::Array(items) => items.iter().map(traced).collect(),
            Json::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), traced(value))).collect(),
            other => other.clone(),
        }
    }
    let file: Json = serde_json::from_str(include_str!("../../../tests/jinja/cases.json")).unwrap();
    let context = traced(&file["context"]);
    let (mut traces, mut outputs) = (0, 0);
    for case in file["cases"].as_array().unwrap() {
        let template = case["template"].as_str().unwrap();
        let Some(made) = render(template, &context) else { continue };
        outputs += 1;
        for (at, _) in made.text.match_indices(TRACE) {
            assert!(made.data.iter().any(|range| range.contains(&at)), "{template}: {:?}", made.text);
            traces += 1;
        }
    }
    assert!(outputs > 300 && traces > 300, "{traces} traces in {outputs} outputs");
}
