"""Writes cases.json: templates, and what Jinja2 makes of them.

Run with Jinja2 3.1.6. The environment is the one in which Hugging Face renders chat templates.
A case that fails in Jinja2 has null for its output: it must fail in Kernloom too.
"""

import json
import os

from jinja2.ext import loopcontrols
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception

CONTEXT = {
    "none_value": None,
    "yes": True,
    "no": False,
    "int": 7,
    "neg": -3,
    "float": 2.5,
    "text": "Hello, World",
    "padded": "  \n padded \t ",
    "empty": "",
    "lines": "one\n\ntwo\r\nthree",
    "accents": "Ünïcode 日本 ß 👩‍🚀",
    "quotes": "it's \"quoted\" \\ back\nline <b>&</b>",
    "numbers": [3, 1, 2, 1],
    "words": ["pear", "Apple", "fig", "apple"],
    "mixed": [1, "a", None, True, 2.5, [1, 2], {"k": "v"}],
    "nothing": [],
    "map": {"b": 1, "a": {"c": [1, 2, {"d": "e"}]}, "items": "hidden", "n": None, "t": True},
    "people": [
        {"name": "Ada", "age": 36, "tags": ["x", "y"]},
        {"name": "bob", "age": 25},
        {"name": "Cy", "age": 36, "admin": True},
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi <there> & \"you\""},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"},
        {"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "image"}, {"type": "text", "text": "two"}]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "description": "dé <x>", "parameters": {"type": "object", "properties": {"a": {"type": "integer", "default": 1.0}}, "required": ["a"]}}},
    ],
}

EXPRESSIONS = """
none_value
yes
no
int
neg
float
text
mixed
map
nothing
missing
missing.attribute
missing['item']
missing()
missing[0:1]
1 + 1
1 + 1.0
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 % 2
-7.5 // 2
7 / 2
6 / 2
2 ** 10
2 ** -1
2 ** 0.5
none_value | selectattr('a') | list
missing | rejectattr('a', 'equalto', 1) | list | length
missing | map('upper') | list
none_value | map(attribute='a') | list
0 | select | list
false | reject | list
5 | select | list
1 / 0
1 // 0
1 % 0
1 + yes
- yes
'a' + 'b'
'a' + 1
'a' ~ 1 ~ none_value ~ yes ~ 2.0 ~ missing
1 ~ 2 + 3
'a' * 3
3 * 'ab'
'a' * -1
[1] * 3
[1, 2] + [3]
(1, 2) + (3,)
[1] + (2,)
missing + 'a'
none_value + 'a'
1_000 + 1
1e3
1.5e-7
1e16
123456789012345680.0
0.1 + 0.2
100000000000000000000.0 - 1
1 == 1.0
1 == yes
'a' == 'a'
'a' != 'b'
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{'a': 1} == {'a': 1.0}
none_value == missing
missing == missing2
1 < 2 < 3
1 < 2 > 3
1 < 'a'
'a' < 'b'
'B' < 'a'
[1, 2] < [1, 3]
(1, 2) < (1, 2, 3)
none_value < 1
1 in numbers
9 not in numbers
'ell' in text
'' in text
1 in text
'a' in map
'items' in map
'z' in missing
1 in (1, 2)
not yes
not yes and no
not (yes and no)
yes and 'a' or 'b'
no and 'a' or 'b'
'' or 'x'
'' and 'x'
0 or [] or 'last'
'a' if yes else 'b'
'a' if no else 'b'
'a' if no
('a' if no) is defined
'a' if no else 'b' if no else 'c'
text[0]
text[-1]
text[99]
text[1:4]
text[::-1]
text[::2]
text[-5:]
text[:-5]
text[10:2:-3]
empty[::-1]
nothing[::-1]
numbers[::-1]
numbers[1:]
numbers[:-1]
numbers[5:9]
numbers[-99:2]
numbers[0]
numbers[-1]
numbers[10]
numbers['x']
numbers[::0]
(1, 2, 3)[::-1]
(1, 2, 3)[1:][0]
map.b
map['b']
map.a.c[2].d
map['a']['c'][-1]['d']
map.z
map['z']
map.z.y
map.items is defined
map['items']
map.items()
map.items() | list
map.keys() | list
map.values() | list
map.get('b')
map.get('z')
map.get('z', 5)
map.b.c
none_value.x
none_value.x.y
none_value['x']
int.x
text.x
text.upper()
text.lower()
text.nothing()
numbers.append(4)
map.update({'x': 1})
padded.strip()
padded.lstrip()
padded.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
text.startswith('Hell')
text.startswith(('x', 'Hell'))
text.endswith('ld')
text.endswith(('x', 'y'))
text.split()
text.split(',')
text.split(', ')[1]
text.split('o', 1)
' a  b '.split()
' a  b '.split(' ')
' a  b  c '.split(none, 1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.rsplit(',')
text.split('')
lines.splitlines()
lines.splitlines(true)
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('=')
'abc'.rpartition('=')
text.replace('l', 'L')
text.replace('l', 'L', 1)
'abc'.replace('', '-')
'abc'.removeprefix('a')
'abc'.removesuffix('c')
'abc'.removesuffix('x')
text.find('o')
text.rfind('o')
text.find('zz')
accents.find('日')
text.index('zz')
text.count('l')
', '.join(words)
', '.join(numbers)
text.title()
"it's a dog".title()
'hELLO wORLD'.capitalize()
'aBc'.swapcase()
'123'.isdigit()
''.isdigit()
'abc'.isalpha()
'ab1'.isalnum()
' \t'.isspace()
'ABC'.isupper()
'Abc'.isupper()
'abc'.islower()
'5'.zfill(3)
'ab'.ljust(5) ~ '|'
'ab'.rjust(5, '*')
'ab'.center(5)  ~ '|'
'abc'.center(6) ~ '|'
'abc'.center(8, '-')
'{} and {}'.format(1, 'b')
'{0}{1}{0}'.format('a', 'b')
'{x} {{}}'.format(x=5)
'%s and %d' % ('a', 5)
'%s' % 'a'
'%5.1f|%-5s|%05d|%%' % (2.25, 'ab', 42)
'%(a)s' % {'a': 1}
'%s %s' % 'a'
'%r' % 'a'
'%x' % 255
text | upper
text | lower
text | length
accents | length
numbers | length
map | length
missing | length
none_value | length
text | first
text | last
numbers | first
numbers | last
nothing | first
(nothing | first) is defined
padded | trim
'xax' | trim('x')
'hello world' | capitalize
'hello world' | title
"it's x-ray" | title
text | replace('l', 'L')
text | replace('l', 'L', 1)
int | string ~ 'x'
'42' | int + 1
'4.7' | int
'x' | int
'x' | int(default=9)
'1.5' | float
'x' | float
2.567 | round(1)
2.5 | round
3.5 | round
2 | round
-3 | abs
neg | abs
numbers | sort
numbers | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
people | sort(attribute='age') | map(attribute='name') | list
mixed | sort
numbers | unique | list
words | unique | list
numbers | min
numbers | max
words | max
nothing | max
numbers | sum
people | sum(attribute='age')
people | map(attribute='name') | join(', ')
people | map(attribute='admin', default='no') | list
words | map('upper') | list
words | map('replace', 'p', 'P') | join(' ')
numbers | select('odd') | list
numbers | reject('odd') | list
numbers | select('>', 1) | list
numbers | select('greaterthan', 1) | list
mixed | select | list
people | selectattr('admin') | map(attribute='name') | list
people | selectattr('admin', 'defined') | list | length
people | selectattr('age', 'equalto', 36) | map(attribute='name') | list
people | rejectattr('age', '==', 36) | map(attribute='name') | list
people | selectattr('tags.0', 'eq', 'x') | list | length
words | join
words | join('-')
mixed | join(',')
people | join(', ', attribute='name')
numbers | reverse | list
text | reverse
'abc' | list
map | list
map | items | list
{'b': 1, 'A': 2} | dictsort
{'b': 1, 'A': 2} | dictsort(true)
{'b': 1, 'A': 2} | dictsort(by='value')
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3] | batch(2, 0) | list
missing | default('d')
none_value | default('d')
none_value | default('d', true)
empty | d('d', boolean=true)
int | default('d')
missing | default
lines | indent
lines | indent(2, true)
lines | indent(2, blank=true)
lines | indent('> ')
quotes | e
quotes | escape
quotes | safe
'a b  c' | wordcount
'%s!' | format('x')
people | attr('x')
text | nofilter
quotes | tojson
mixed | tojson
map | tojson
map | tojson(indent=2)
nothing | tojson(indent=2)
{'a': [], 'b': {}} | tojson(indent=4)
{'b': 1, 'a': 2} | tojson(sort_keys=true)
[1, {'a': 2}] | tojson(separators=(',', ':'))
accents | tojson
accents | tojson(ensure_ascii=false)
accents | tojson(ensure_ascii=true)
tools | tojson
tools[0] | tojson(ensure_ascii=False, indent=4)
missing | tojson
1.0 | tojson
1e20 | tojson
{1: 'a', none: 'b', true: 'c'} | tojson
quotes
[quotes, "a'b", 'a"b', '\\n']
{'k': "v'", 1: (1,), 'e': ()}
missing is defined
int is defined
missing is undefined
none_value is none
int is none
int is not none
text is string
int is string
int is number
yes is number
yes is integer
int is integer
float is float
int is float
yes is boolean
yes is true
1 is true
no is false
map is mapping
numbers is mapping
numbers is sequence
text is sequence
map is sequence
int is sequence
numbers is iterable
text is iterable
int is iterable
missing is iterable
int is odd
int is even
float is odd
int is divisibleby 7
int is divisibleby(2)
text is lower
'abc' is lower
'ABC' is upper
int is eq 7
int is equalto(7)
int is gt 6
int is ne 7
1 is in numbers
1 is in [1, 2]
int is sameas 7
none_value is sameas none
range is callable
text is callable
int is nosuchtest
text is not string
not text is string
text is string and int is number
text is defined and text
range(3) | list
range(1, 4) | list
range(5, 0, -2) | list
range(0) | list
range(3)[1]
range(0, 1, 0)
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict([('a', 1)])
namespace(a=1).a
namespace({'a': 1}).a
raise_exception('no ' ~ text)
(1)
(1,)
()
[]
{}
[1, 2,]
{'a': 1,}
'a' 'b' "c"
'\\x41\\u00e9\\t|'
'a\\qb'
"\\"" ~ '\\''
true ~ True ~ false ~ none ~ None
text|upper|lower|title
text | replace('o', '0') | upper ~ '!'
-int | abs
- 3 | abs
2 * 3 + 4 * 5
2 + 3 * 4 ** 2
(2 + 3) * 4
10 - 2 - 3
2 ** 3 ** 2
1 if 1 in [1] else 2
numbers[1 if yes else 0]
numbers[int - 7]
people[0].tags[-1]
people[0]['tags'] | join
messages[-1].content[0].text
(messages | last).role
messages[2].content.split('</think>')[-1].lstrip('\\n')
messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')
1, 2
numbers.1
numbers.index(2)
numbers.count(1)
text and numbers
loop
'a' < none_value
[none_value] == [missing]
{'a': missing}
{[1]: 2}
[missing]
""".strip().split("\n")

STATEMENTS = [
    "plain text\nwith lines\n",
    "ends with two\n\n",
    "",
    "\n",
    "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "a\n  {% if yes %}\n    b\n  {% endif %}\n  c\n",
    "a {%- if yes %} b {%- endif %} c",
    "a {% if yes -%}\n\n b {%- endif -%} \n c",
    "a\n  {%+ if yes %}\n b{%+ endif +%}\nc",
    "{{ text }}\n{{- text -}}\n{{ text }}",
    "  {{ text }}  \n  {{ text }}\n",
    "a{# comment #}b\n  {# comment #}\nc {#- c -#} d",
    "{% raw %}{{ x }} {% if %}{% endraw %}!",
    "  {%- raw -%} {{ x }} {%- endraw -%}  !",
    "x\r\ny\r\n{% if yes %}\r\nz\r\n{% endif %}\r\n",
    "{% if no %}a{% elif none_value %}b{% elif int == 7 %}c{% else %}d{% endif %}",
    "{% if missing %}a{% else %}b{% endif %}",
    "{% if nothing %}a{% endif %}{% if map %}b{% endif %}",
    "{% for x in numbers %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in numbers %}{{ loop.previtem }}-{{ loop.nextitem }}|{% endfor %}",
    "{% for x in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}",
    "{% for x in numbers %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in nothing %}a{% else %}none{% endfor %}",
    "{% for x in missing %}a{% else %}none{% endfor %}",
    "{% for x in none_value %}a{% endfor %}",
    "{% for x in int %}a{% endfor %}",
    "{% for c in 'añ' %}[{{ c }}]{% endfor %}",
    "{% for k in map %}{{ k }};{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in map | dictsort %}{{ k }};{% endfor %}",
    "{% for k, v in [(1, 2), (3, 4)] %}{{ k + v }};{% endfor %}",
    "{% for (k, v) in [(1, 2), (3, 4)] %}{{ k + v }};{% endfor %}",
    "{% for k, v in [(1, 2, 3)] %}{{ k }}{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ x }}{{ loop.index }}{% else %}no{% endfor %}",
    "{% for x in numbers if x > 9 %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in numbers if yes else nothing %}{{ x }}{% endfor %}",
    "{% for x in (numbers if yes else nothing) %}{{ x }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% for y in words %}{{ loop.index }}{% endfor %}{{ loop.index }} {{ loop.depth }}{% endfor %}",
    "{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}!",
    "{% for x in numbers %}{% for y in numbers %}{% if y == 2 %}{% break %}{% endif %}{{ y }}{% endfor %}/{% endfor %}",
    "{% set x = 1 %}{% for i in numbers %}{% set x = i %}{{ x }}{% endfor %}={{ x }}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in numbers %}{{ x is defined }}{% set x = i %}{% endfor %}",
    "{% set ns = namespace(x=0, found=false) %}{% for i in numbers %}{% set ns.x = ns.x + i %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.x }}{{ ns.found }}{{ ns.other }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2] %}{{ b }}{{ a }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set map.x = 1 %}",
    "{% set x %}block {{ text }}{% endset %}[{{ x }}]",
    "{% set x | upper | replace('L', '1') %}block {{ text }}{% endset %}[{{ x }}]",
    "{% set x = 'a' %}{% set x = x ~ 'b' %}{{ x }}",
    "{% macro m(a, b='d', c=none) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, c=3) }} {{ m(b=1, a=2) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro a() %}<{{ b() }}>{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}",
    "{% macro m() %}{{ text }}{{ local }}{% endmacro %}{% set local = 'L' %}{{ m() }}",
    "{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m() %}\n  a\n{% endmacro %}\n[{{ m() }}]{{ m() | trim | upper }}",
    "{% macro m(a=text) %}{{ a }}{% endmacro %}{{ m() }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ text }}{% endcall %}",
    "{% macro m(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b) m(1) %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m(ns) %}{% set ns.x = 5 %}{% endmacro %}{% set n = namespace(x=1) %}{{ m(n) }}{{ n.x }}",
    "{% filter upper %}a {{ text }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}",
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content | trim }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endif %}\n{% endfor %}",
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ system }}|{{ rest | length }}",
    "{% for m in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}{{ index }}{{ m.role[0] }}{% endfor %}",
    "{% if tools is defined and tools %}{% for tool in tools %}{% set f = tool.function if tool.function is defined else tool %}{{ f | tojson(indent=4) }}{% endfor %}{% endif %}",
    "{{ raise_exception('bad ' ~ messages[0].role) }}",
    "{% if messages[0].role != 'user' %}{{ raise_exception('x') }}{% endif %}",
    "{% for tool in tools %}{{ '\\n' ~ tool | tojson }}{% endfor %}",
    "{% set x = {'a': 1} %}{% set x = dict(x, b=2) %}{{ x | tojson }}",
    "{%- for k, v in tools[0].function.parameters.properties.items() -%}\n  {{ k }}: {{ v.type }}\n{%- endfor -%}",
    "{% if (messages | selectattr('role', 'equalto', 'user') | list | length) > 1 %}many{% endif %}",
    "{{ 'x' if messages | map(attribute='role') | select('equalto', 'system') | list else 'y' }}",
    "{% set roles = messages | map(attribute='role') | list %}{{ roles }}",
    "{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s ~ m.role[:1] %}{% endfor %}{{ ns.s }}",
    "{{ '{{' }}{{ '%}' }}{{ \"}}\" }}",
    "{{ {'a': {'b': {}}} }}",
    "{{ text }}{% if yes %}{{ text }}{% endif %}\n\n{{ text }}",
    "{% if yes %}\n\n  a\n\n{% endif %}\n\nb",
    "{%- if yes -%}\n  a  \n{%- endif -%}",
    "{% if yes %}a{% endif %}  \n  b",
    "{% include 'x' %}",
    "{% unknown %}",
    "{% if %}{% endif %}",
    "{% if yes %}",
    "{% endif %}",
    "{{ }}",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{{ 'a }}",
    "{{ a b }}",
    "{% for x numbers %}{% endfor %}",
    "{% set 1 = 2 %}",
    "{# unclosed",
    "{% raw %}unclosed",
    "{{ f(a=1, 2) }}",
    "{{ not }}",
    "}} %} #} { {",
]


def render(template):
    try:
        return environment.from_string(template).render(**CONTEXT)
    except Exception:
        return None


if __name__ == "__main__":
    templates = ["{{ " + expression + " }}" for expression in EXPRESSIONS] + STATEMENTS
    cases = [{"template": template, "output": render(template)} for template in templates]
    path = os.path.join(os.path.dirname(__file__), "cases.json")
    with open(path, "w") as file:
        json.dump({"context": CONTEXT, "cases": cases}, file, ensure_ascii=False, indent=1)
        file.write("\n")
    print(len(cases), "cases,", sum(case["output"] is None for case in cases), "errors")
