"""Small templates for make_chat_templates.py: (source, variables). Each is one question to the engine.

Plain strings in the lists below are expressions, printed as they are and, in brackets, as Python's repr.
"""

PEOPLE = [{"name": "Ann", "age": 31, "city": {"zip": 8001}}, {"name": "bob", "age": 25, "city": {"zip": 3000}},
          {"name": "Cid", "age": 31}]
DATA = {
    "i": 7, "n": -3, "f": 2.5, "big": 12345678901234567890, "yes": True, "no": False, "nil": None,
    "s": "Hello, World", "e": "", "u": "Größe ΟΔΟΣ ß ǆ 日本 🎉", "html": "<a href='x'>\"&\"</a>", "lines": "one\ntwo\n\nfour\r\nfive\n",
    "l": [3, 1, 2], "m": [1, "a", None, True, 2.0, [1, 2], {"k": "v"}], "empty": [], "d": {"b": 1, "a": [1, 2], "C": None},
    "words": ["pear", "Apple", "fig", "apple"], "people": PEOPLE, "nested": {"x": {"y": [{"z": "deep"}]}},
    "items_key": {"items": [1], "get": 2, "plain": 3},
}

NUMBERS = r"""
1 | 0 | -5 | 007 | 0x1F | 0o17 | 0b101 | 1_000 | 1.5 | 1e3 | 1.5e-7 | 1e16 | 1e15 | 123456789.123 | 0.1 + 0.2 | 1e100 | 5e-324 | 1.0 | -0.0
7 // 2 | -7 // 2 | 7 // -2 | 7 % 3 | -7 % 3 | 7 % -3 | 7.5 // 2 | -7.5 % 2 | 7 / 2 | 6 / 2 | 2 ** 10 | 2 ** -1 | 2 ** 0.5 | 2 ** 3 ** 2 | -2 ** 2
1 / 0 | 1 // 0 | 1 % 0 | 1.0 / 0 | 0 ** -1 | i + f | i - n | i * f | -i | +i | - -i | -n|abs | true + 1 | true * 3 | -true | big | big + 1 | big * 2
1 + 2 * 3 | (1 + 2) * 3 | 10 - 2 - 3 | 2 * 3 % 4 | 1 + 2 ~ 3 * 4 | 1 ~ 2 + 3 | 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x'] | 1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 == true
1 == '1' | 1 < 'a' | 'a' < 'b' | 'a' < 'B' | [1, 2] < [1, 3] | [1, 2] < [1, 2, 0] | (1, 2) == [1, 2] | {'a': 1} == {'a': 1.0} | none == none | none < 1
1 and 2 | 0 and 2 | 0 or 'x' | '' or none | not 1 | not none or 5 | not (1 and 0) | 1 if 0 else 2 | 1 if 1 | (1 if 0) is defined | 'a' if e else 'b' if no else 'c'
7|round | 2.5|round | 3.5|round | 2.675|round(2) | -2.5|round | 1234|round(-2) | 1250|round(-2) | 99999999999999999999999999999999999999|round(-38) | 2.1|round(0, 'ceil') | 2.9|round(method='floor') | 2.123|round(2, 'ceil')
'12'|int | ' 12 '|int | '12.9'|int | 'x'|int | 'x'|int(5) | '0x1F'|int(base=16) | 'ff'|int(0, 16) | '0b11'|int(0, 2) | 3.99|int | -3.99|int | none|int | true|int | [1]|int(9)
'1_000'|int | '1e3'|int | '1.5'|float | 'x'|float | 'x'|float(1.5) | none|float(2) | 'inf'|float | '-inf'|float | 'nan'|float | ' 2.5 '|float | 3|float | '1_0.5'|float
missing|int | missing|float | 5|abs | -5|abs | -2.5|abs | 'a'|abs | 1000|filesizeformat | 1|filesizeformat | 1500000|filesizeformat | 1500000|filesizeformat(true) | 999|filesizeformat
170141183460469231731687303715884105727 | 2 ** 64 | 10 ** 20 | 18446744073709551615 - 1
"""

TEXTS = r"""
'a' 'b' | "a'b" | 'a"b' | 'a\nb' | 'a\tb\\c' | '\x41\u00e9\U0001F600\101' | '\d\q' | 'a\'b' | "" | '\u4e2d文' | '\é'
s|length | u|length | u[0] | u[-1] | u[3] | u[2:5] | u[::-1] | u[::2] | u[-3:] | u[100] is defined | s[1:4] | s[:-1] | s[5:2] | s[::0] | s[-100:3] | s[3:100]
s + '!' | s * 2 | 2 * 'ab' | 'ab' * 0 | 'ab' * -1 | s + 1 | 1 + s | s - 'a' | 'lo' in s | 'x' in s | 'x' not in s | 1 in s | '' in s | s == 'Hello, World'
s|upper | s|lower | s|title | s|capitalize | u|upper | u|lower | u|title | u|capitalize | u.upper() | u.lower() | u.title() | u.swapcase() | u.capitalize() | "they're bill's"|title | "they're bill's".title() | 'foo-bar (baz) [q] {w} <e'|title
'ΑΣ ΑΣΑ Σ Α.Σ ΣΑ'|lower | 'ŉ ﬁ ǰ'|upper | 'ﬁ ǆ ß'.title() | 'İI'|lower | '  a b '|trim | 'xxaxbx'|trim('x') | ' a '.strip() | ' a '.lstrip() | ' a '.rstrip() | 'abcab'.strip('ab') | 'x'.strip(none) | '\u00a0a\u2003'|trim
s.split(', ') | s.split() | ' a  b '.split() | 'a,b,c'.split(',', 1) | 'a,b,c'.rsplit(',', 1) | 'a,b,c'.split(',', maxsplit=1) | ' a b c '.split(none, 1) | ' a b c '.rsplit(none, 1) | ''.split() | ''.split(',') | 'abc'.split('') | 'a||b'.split('|') | lines.splitlines() | lines.splitlines(true)
'aXbXc'.partition('X') | 'aXbXc'.rpartition('X') | 'abc'.partition('X') | 'abc'.rpartition('X') | s.startswith('He') | s.startswith(('x', 'H')) | s.startswith('e', 1) | s.endswith('ld') | s.endswith(('a', 'd')) | s.endswith('o', 0, 5) | s.startswith(1) | s.startswith('')
s.find('o') | s.find('o', 5) | s.find('zz') | s.rfind('o') | s.index('W') | s.index('zz') | u.find('日') | s.count('l') | s.count('') | s.count('o', 5) | u.rfind('ß') | 'aaaa'.count('aa') | s.find('') | s.find('', 50) | 'aXa'.rindex('a')
s.replace('l', 'L') | s.replace('l', 'L', 1) | s.replace('', '-') | s|replace('l', 'L') | s|replace('l', '', 2) | 123|replace(2, 'x') | 'aaa'.replace('aa', 'b') | s.removeprefix('Hello') | s.removesuffix('World') | s.removeprefix('x') | 'abc'.replace('', '-', 2)
'-'.join(['a', 'b']) | ','.join('abc') | ','.join([1]) | ''.join([]) | l|join | l|join(', ') | m|join('|') | people|join(', ', attribute='name') | ['a', missing, none]|join('-') | 'abc'|join('.') | {'a': 1, 'b': 2}|join
'7'.zfill(3) | '-7'.zfill(4) | 'a'.ljust(3) ~ '|' | 'a'.rjust(3, '*') | 'a'.center(4, '*') | 'ab'.center(5, '*') | 'abc'.center(2) | 'é'.rjust(3, '日') | 'a'|center(5) ~ '|' | 'a'.center(3, 'xy') | 'a\tb'.expandtabs(4) | 'ab\tc\n\td'.expandtabs()
'a1'.isalnum() | 'é日'.isalpha() | '12'.isdigit() | '²'.isdigit() | '²'.isdecimal() | '½'.isnumeric() | ' \t'.isspace() | 'aB'.islower() | 'ab1'.islower() | 'AB'.isupper() | 'Ab Cd'.istitle() | ''.isalpha() | 'é'.isascii() | 'a\n'.isprintable() | ''.isprintable()
'%s and %s' % ('a', 1) | '%d%%' % 5 | '%5.2f|%-5s|%05d' % (1.234, 'x', 42) | '%(a)s %(b)03d' % {'a': 'x', 'b': 7} | '%s' % none | '%r' % 'a' | '%x %X %o %#x' % (255, 255, 8, 255) | '%e %g %G' % (1234.5, 0.00001, 1e20) | '%s' % [1, 2] | '%c%c' % (65, 'b') | '%+d % d' % (1, 2) | '%*d' % (5, 3) | '%.3d' % 5 | '%.2s' % 'abc' | '%s' % missing
'%s %s' % 'a' | '%s' % (1, 2) | '%d' % 'x' | '%' % 1 | '%y' % 1 | '%i %u' % (3.9, 4) | '%s' % (('a', 'b'),) | '%5s|%-5s|' % ('é', 'é') | '%s'|format('x') | '%s-%s'|format(1, 2) | '%(a)s'|format(a=3) | '%a' % 'é' | '%.0f' % 2.5 | '%.0f' % 0.5 | '%10.3e' % 12345.678
'{} {}'.format(1, 'a') | '{1} {0}'.format('a', 'b') | '{a} {b}'.format(a=1, b=2) | '{{}} {}'.format(1) | '{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c') | '{:05d} {:+d} {:x} {:#b} {:o}'.format(42, 1, 255, 5, 8) | '{:.2f} {:e} {:g} {:%}'.format(1.234, 1234.5, 0.0001, 0.5) | '{!r} {!s}'.format('a', 'b') | '{0.name} {0[age]}'.format(people[0]) | '{:*^9}'.format('mid') | '{:{}}|'.format('a', 5) | '{:,} {:_}'.format(1234567, 1234567) | '{:,.2f}'.format(12345.678)
'{} {}'.format(1) | '{x}'.format() | '{'.format() | '}'.format() | '{:d}'.format('a') | '{:s}'.format(1) | '{} {0}'.format(1) | '{:.3}'.format('abcdef') | '{:.3}'.format(1234.5) | '{:10.4}|'.format(3.14159) | '{:n}'.format(5) | '{}'.format(none) | '{:5}|'.format(none) | '{:5}|'.format(true) | '{:d}'.format(true) | '{}'.format([1, 'a']) | '{:<5}|'.format(3) | '{:=+5}'.format(3) | '{:c}'.format(65) | '{a[b]}'.format(a={'b': 1}) | '{0[0]}{0[1]}'.format('xy') | '{m}'.format_map({'m': 1})
lines|indent | lines|indent(2, true) | lines|indent(2, blank=true) | lines|indent('> ', first=true) | ''|indent | 'a'|indent | 'a\n'|indent | 5|indent | 'foo bar baz qux'|truncate(9) | 'foo bar baz qux'|truncate(9, true) | 'foo bar baz qux'|truncate(11) | 'foo bar baz qux'|truncate(11, false, '...', 0) | u|truncate(8, true, '…', 0) | 'abc'|truncate(2)
'hello there, big-world_x'|wordcount | ''|wordcount | 5|string | none|string | [1]|string | missing|string | html|e | html|escape|escape | html|forceescape | html|safe | html|safe|forceescape | 'a b/c?d=é&'|urlencode | {'a b': 'c/d', 'e': 1}|urlencode | {'class': 'x y', 'id': none, 'n': 1}|xmlattr | {'a b': 1}|xmlattr | {}|xmlattr
'<'|safe + '<' | '<' + '<'|safe | ('<'|safe ~ '<') | '<'|safe|upper + '>' | ('<b>'|safe).replace('b', '<') | '<%s>'|safe % '<' | '<{}>'|safe|string|trim | ('<{}>'|safe).format('<') | ['<', '<'|safe] | '<'|safe * 2 + '<' | '-'|safe|join | ('<'|safe).join(['<', 'x'|safe]) | ['<'|safe, '<']|join('<') | ('<a> <b>'|safe).split() | ('<'|safe)[0] + '<' | '<'|safe == '<' | '<'|safe is escaped | html is escaped | '<'|safe|tojson | '<'|e + '<'|e
"""

COLLECTIONS = r"""
l[0] | l[-1] | l[5] is defined | l[0:2] | l[::-1] | l[1:] | l[5:] | l[:1] + [9] | l * 2 | l + (1,) | (1,) + (2, 3) | (1,) * 2 | [] | () | (1,) | {} | [1, 2,] | {'a': 1,} | {1: 'x', none: 2, (1, 2): 3} | {[1]: 2} | {'a': 1, 'a': 2} | {1: 'a', true: 'b', 1.0: 'c'}
m | d | nested | nested.x.y[0].z | nested['x']['y'][0]['z'] | nested.x.y.0.z | nested.q is defined | nested.q.r | nested.q.r is defined | d.b | d['b'] | d.get('b') | d.get('zz') | d.get('zz', 5) | d.get('C', 5) | d['zz'] is defined | d.missing | d.missing.x
d.items() | d.keys() | d.values() | d.items()|list | d|items|list | d|list | d|length | d.keys()|list | 'b' in d | 'zz' in d | 'b' in d.keys() | 1 in d.values() | ('b', 1) in d.items() | d.items()|length | d|dictsort | d|dictsort(true) | {'a': 2, 'b': 1}|dictsort(by='value') | d|dictsort(reverse=true) | d|dictsort(by='x') | l|dictsort | {'a': 1}.copy() | d.pop('b') | d.update({}) | d.clear | l.append(1) | l.sort() | l.pop(0)
items_key.items is callable | items_key['items'] | items_key.get is defined | items_key.plain | items_key.plain() | l.index(2) | l.index(9) | l.count(1) | (1, 1).count(1) | l|length | l|count | 5|length | missing|length | none|length | l|first | l|last | []|first is defined | []|last is defined | missing|first is defined | 'abc'|first | 'abc'|last | d|first | d|last | l|sum | []|sum | [0.1, 0.2]|sum | [1, 'a']|sum | ['a', 'b']|sum | [[1], [2]]|sum(start=[]) | people|sum('age') | people|sum(attribute='age', start=100)
l|sort | l|sort(reverse=true) | words|sort | words|sort(case_sensitive=true) | words|sort(true) | m|sort | people|sort(attribute='age')|map(attribute='name')|list | people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list | people|sort(attribute='city.zip') | l|min | l|max | words|min | words|max(case_sensitive=true) | []|max is defined | people|max(attribute='age') | [1, 'a']|max | words|unique|list | words|unique(true)|list | people|unique(attribute='age')|map(attribute='name')|list | [1, 1.0, true, '1']|unique|list | [[1], [1]]|unique|list
l|reverse|list | 'abc'|reverse | d|reverse|list | l|map('string')|list | words|map('upper')|list | words|map('replace', 'p', 'P')|list | people|map(attribute='name')|join(',') | people|map(attribute='city.zip')|list | people|map(attribute='city.zip', default=0)|list | people|map(attribute='missing', default='x')|list | l|map|list | l|map('nope')|list | words|map('length')|list | [[1, 2], [3]]|map('first')|list | [[1, 2], [3, 4]]|map(attribute=1)|list | [[1, 2]]|map(attribute='1')|list
l|select('odd')|list | l|select('>', 1)|list | l|reject('even')|list | m|select|list | m|reject|list | m|select('string')|list | people|selectattr('age', 'equalto', 31)|map(attribute='name')|list | people|rejectattr('age', 'gt', 30)|map(attribute='name')|list | people|selectattr('city')|list|length | people|selectattr('city', 'defined')|list|length | people|selectattr('city.zip', '==', 3000)|list|length | people|selectattr|list | l|select('nope')|list | people|selectattr('name', 'in', ['Ann'])|list|length | l|select('in', [1, 2])|list | l|selectattr('x')|list
people|groupby('age')|list|length | people|groupby('age')|first | (people|groupby('age')|last).grouper | (people|groupby('age')|last).list|length | people|groupby('name')|map(attribute='grouper')|list | words|groupby(0)|map(attribute=0)|list | people|groupby('city.zip', default=0)|map('first')|list | ['a', 'A', 'b']|groupby(0)|map('last')|list | ['a', 'A']|groupby(0, case_sensitive=true)|map('last')|list
l|batch(2)|list | [1, 2, 3, 4, 5]|batch(2, 'x')|list | [1, 2, 3, 4, 5]|slice(2)|list | [1, 2, 3, 4, 5]|slice(3, 'x')|list | l|slice(0)|list | []|batch(2)|list | l|batch(2)|length | l|list is sameas l | range(3) | range(3)|list | range(1, 7, 2)|list | range(5, 0, -2)|list | range(3)[1] | range(3)[-1] | range(10)[2:5] | range(3)|length | 2 in range(3) | range(0)|list | range(1, 2, 0) | range(100001) | range(3) == range(0, 3) | range('a') | range()
dict(a=1, b=2) | dict([['a', 1]]) | dict({'a': 1}, b=2) | dict(d) | namespace(a=1).a | namespace({'a': 1}).a | namespace(a=1).b is defined | namespace(_a=1) | l|tojson | d|tojson | m|tojson | u|tojson | u|tojson(ensure_ascii=true) | html|tojson | nested|tojson(indent=2) | nested|tojson(indent='--') | []|tojson(indent=2) | {}|tojson(2) | d|tojson(indent=0) | d|tojson(separators=(',', ':')) | d|tojson(sort_keys=true) | {'b': {'d': 1, 'c': 2}, 'a': 1}|tojson(sort_keys=true) | 1.0|tojson | 1e22|tojson | 0.1|tojson | none|tojson | true|tojson | missing|tojson | range(2)|tojson | (1, 2)|tojson | {1: 2, none: 3, true: 4, 1.5: 5}|tojson | {(1, 2): 3}|tojson | 'a\n\t\x01"\\/\x7f'|tojson | 'inf'|float|tojson | d.items()|tojson | l|tojson(indent=1, separators=(';', '='))
missing | missing is defined | missing is undefined | missing|default('x') | missing|d('x') | missing|default | none|default('x') | none|default('x', true) | ''|default('x', boolean=true) | 0|default(5) | missing.attr | missing[0] | missing() | missing + 1 | 1 + missing | missing == missing | missing == none | missing < 1 | -missing | missing and 1 | missing or 1 | not missing | missing|list | missing|join | missing|upper | missing|items|list | missing ~ 'x' | 'x' in missing | missing in [1] | missing in [missing] | [missing] | missing|tojson | missing is none | missing is string | missing is iterable | missing is sequence | missing is mapping | missing is callable | missing|reverse|list | missing[1:] | missing|sort | missing|trim | missing|attr('x')
s is string | s is not string | 1 is string | 1 is number | 1.0 is number | true is number | '1' is number | 1 is integer | true is integer | 1.0 is integer | 1.0 is float | true is boolean | 1 is boolean | none is none | 0 is none | true is true | 1 is true | false is false | 0 is false | d is mapping | l is mapping | l is sequence | s is sequence | d is sequence | 1 is sequence | range(1) is sequence | d.items() is sequence | l is iterable | s is iterable | 1 is iterable | none is iterable | l|map('string') is iterable | l|map('string') is sequence | range is callable | s.upper is callable | 1 is callable
4 is even | 3 is odd | -3 is odd | 6 is divisibleby 3 | 6 is divisibleby(4) | 'a' is lower | 'A' is upper | 'aB' is lower | 1 is eq 1 | 1 is equalto(1) | 1 is ne 2 | 2 is gt 1 | 2 is ge 2 | 1 is lt 2 | 1 is lessthan 2 | 1 is in [1, 2] | 3 is in(l) | 'a' is in 'abc' | 1 is sameas 1 | true is sameas true | l is sameas l | [] is sameas [] | 'upper' is filter | 'nope' is filter | 'even' is test | 'nope' is test | 2.0 is even | 'a' is even | 1 is not defined | (1 is defined) == true | 1 is defined and 2 is defined | 1 is odd or nope is odd | s is escaped | 5 is divisibleby 0
l|attr('count') is callable | d|attr('b') is defined | nested|attr('x') is defined | s|attr('upper') is callable | s.nope is defined | s.nope | l.nope.x | ''.__class__ | ''.__class__ is defined | [].__len__() | d.__class__.__mro__ | none.x | none['x'] | none.x.y | nil[1:] | 5[0] | 5[0] is defined | d[1:] | d[[1]] is defined | l['a'] is defined | l['count'] is callable | l[true] | l[1.0] is defined | s['upper']() | people[0]['name'] | (people|first).name | people.0.name | people[0].city.zip | people|length > 2 and people[2].city is undefined
cycler('a', 'b').next() | cycler() | joiner()() | loop is defined | caller is defined | strftime_now('%Y-%m-%d') | strftime_now('%d %b %Y') | strftime_now('%B %A %H:%M:%S %p %j %y %I %-d') | strftime_now('%e|%f|%z|%Z|%%|%q') | strftime_now('') | strftime_now('%c %x %X') | strftime_now(1) | raise_exception('oh no') | raise_exception() | raise_exception(5) | dict(**{'a': 1}) | range(*[1, 4])|list | dict(a=1, **{'b': 2}) | dict(a=1, **{'a': 2}) | range(**{}) | 'a'.upper(1) | s|upper(1) | s|replace('a') | s|replace(new='x', old='l') | s|nope | s is nope | (s|nope) if no else 1 | 1|default(1, 2, 3)
"""

STATEMENTS = [
    # white space
    "a\n{% if 1 %}\nb\n{% endif %}\nc\n", "a\n  {% if 1 %}  \n  b\n  {% endif %}\nc", "a  {%- if 1 -%}  b  {%- endif -%}  c",
    "a\n  {%+ if 1 %}b{% endif %}", "{% if 1 +%}\nb{% endif %}", "  {{ 1 }}  \n  {{- 1 -}}  \n x", "{# c #}\na", "  {# c #}  \na",
    "a {#- c -#} b", "a\n\n", "a\n\n\n", "\n\na", "{% if 1 %}\n\n a{% endif %}", "x {% if 1 %} y {% endif %} z",
    "\t {% if 1 %}a{% endif %}", "a{# {{ x }} {% y %} #}b", "{{ '{{' }}{{ '%}' }}{{ '}}' }}", "a\r\nb\rc", "{% if 1 %}\r\nb{% endif %}",
    "{% raw %}{{ x }} {% if %}{% endraw %}", "a\n  {% raw %}\n x {%- endraw -%} \n b", "{%- raw -%} x {% endraw %} y", "{% raw %}a",
    "{# a", "{{ 1", "{% if 1 %}a", "{% if %}a{% endif %}", "{{ }}", "{% %}", "{{ 1 }", "{ { 1 } }", "{{ {'a': {'b': 1}} }}", "{{ {'a': 1}['a'] }}",
    "{{ 1 }}{{ 2 }}\n{{ 3 }}\n", "{%if 1%}a{%endif%}", "{{1}}", "{%- for i in [1,2] -%}\n {{ i }} \n{%- endfor -%}", " {%- set x = 1 %} {{ x }}",
    "a\n    {{- 'b' }}\n    {%- if 1 %}\n    c\n    {%- endif %}\nd", "\u00a0{%- if 1 %}\u2003{% endif %}", "  {% set x = 1 %}\n  {% set y = 2 %}\n{{ x + y }}",
    # if, for
    "{% if i > 5 %}big{% elif i > 3 %}mid{% else %}small{% endif %}", "{% if n %}a{% elif nil %}b{% endif %}", "{% if l, %}a{% endif %}",
    "{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for x in empty %}a{% else %}empty{% endfor %}",
    "{% for x in missing %}a{% else %}empty{% endfor %}", "{% for x in nil %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ b }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}", "{% for x in l if x > 5 %}a{% else %}none{% endfor %}",
    "{% for x in l if loop.first %}{% endfor %}", "{% for x in [1, 2, 3] if x != 2 %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% macro m() %}{% break %}{% endmacro %}",
    "{% for x in [1] %}{% break %}{% else %}e{% endfor %}", "{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}e{% endfor %}", "{% for x in l %}{% continue %}{% else %}e{% endfor %}", "{% for x in [] %}{% else %}{% break %}{% endfor %}", "{% for y in [1, 2] %}{% for x in [] %}{% else %}{% break %}{% endfor %}{{ y }}{% endfor %}",
    "{% for x in l %}{% set q %}{% break %}{% endset %}{{ x }}{% endfor %}done", "{% for x in l %}{% filter upper %}a{% continue %}{% endfilter %}{{ x }}{% endfor %}done",
    "{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for x in [[1, [2, 3]], [4]] recursive %}{{ loop.depth }}{{ x if x is number else loop(x) }}{% endfor %}", "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% for x in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}[{{ x.n }}{{ loop(x.c) }}]{{ loop.depth0 }}{% else %}-{% endfor %}",
    "{% for loop in l %}{% endfor %}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% set loop = 5 %}{{ loop }}", "{{ loop }}", "{% for x in l %}{{ loop.nope is defined }}{% endfor %}",
    "{% for x in l|map('string') %}{{ loop.length }}{{ loop.last }}{{ x }} {% endfor %}", "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = l|select %}{{ g|first }}{{ g|list }}",
    "{% for x in 'añb' %}{{ x }}.{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x, in [[1], [2]] %}{{ x }}{% endfor %}",
    "{% for x in l %}{% endfor %}{{ x is defined }}", "{% for x in (l if yes else none) %}{{ x }}{% endfor %}", "{% for m in people if m.age > 30 %}{{ m.name }} {% endfor %}",
    "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in [1, [2]]|list %}{{ x }}{% endfor %}", "{% for d in people %}{{ d.name }}{% endfor %}{{ d.b }}",
    # set and scopes
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set (a, b) = [1, 2] %}{{ a + b }}",
    "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]", "{% set x | upper | trim %} a {% endset %}[{{ x }}]", "{% set x | replace('a', 'b') %}aa{% endset %}{{ x }}", "{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}",
    "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set ns = namespace() %}{% set ns.x = 1 %}{{ ns.x }}{{ ns }}", "{% set d.x = 1 %}", "{% set q.x = 1 %}",
    "{% set ns = namespace(a=1) %}{% set ns.a, ns.b = 2, 3 %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace() %}{% set ns.x %}text{% endset %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% if no %}{% set z = 1 %}{% endif %}{{ z is defined }}{{ z }}", "{% if yes %}{% set z = 1 %}{% endif %}{{ z }}", "{% if 1 %}{% set i = i + 1 %}{% endif %}{{ i }}", "{% set i = i + 1 %}{{ i }}",
    "{% set true = 1 %}", "{% set 1 = 1 %}", "{% set a.b.c = 1 %}", "{% set x = %}", "{% set x 1 %}", "{% set a[0] = 1 %}", "{% set x = 1 if no %}{{ x is defined }}", "{% set x = y = 1 %}",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", "{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% endwith %}",
    "{% for q in [1] %}{{ i }}{% endfor %}{% set i = 5 %}{{ i }}", "{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% set i = 5 %}{{ m() }}", "{% macro m() %}{{ i }}{% endmacro %}{{ i }}{{ m() }}{% set i = 5 %}{{ m() }}",
    "{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% if yes %}{% set i = 5 %}{% endif %}{{ m() }}", "{% for q in [1] %}{% for r in [1] %}{{ i }}{% endfor %}{% set i = 5 %}{{ i }}{% endfor %}{{ i }}",
    "{% macro m() %}{% set i = 9 %}{{ i }}{% endmacro %}{{ m() }}{{ i }}", "{% set range = 5 %}{{ range }}", "{% for q in range(2) %}{{ q }}{% endfor %}{% set range = 5 %}",
    # macros and calls
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c='y') }}|{{ m(a=5) }}|{{ m() }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a=b, b=1) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(b=2) }}", "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro f(n) %}{{ 1 if n < 2 else n * f(n - 1)|int }}{% endmacro %}{{ f(5) }}", "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "{{ m(1) }}{% macro m(a) %}{{ a }}{% endmacro %}",
    "{% macro m() %}x{% endmacro %}{{ m() + 'y' }}{{ m()|length }}{{ m }}{{ m.name }}{{ m is callable }}", "{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ i }}{% endcall %}", "{% macro m() %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}", "{% macro m(a) %}{{ a }}{{ caller(1, 2) }}{% endmacro %}{% call(x, y=5) m(i) %}{{ x }}{{ y }}{% endcall %}", "{% call 5 %}{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% if caller %}y{% else %}n{% endif %}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% macro m(**kw) %}{% endmacro %}", "{% macro m(*args) %}{% endmacro %}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}",
    "{% macro m(x) %}\n  {{ x }}\n{% endmacro %}\n[{{ m(1) }}]", "{% macro m() %}{% set x = 1 %}{% endmacro %}{{ m() }}{{ x is defined }}", "{% macro m(i) %}{{ i }}{% endmacro %}{{ m(1) }}{{ i }}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% set ns = namespace() %}{% for x in [1] %}{% macro m(y) %}{{ i }}{{ y }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m(2) }}", "{{ l|map('m')|list }}", "{% macro upper(x) %}{{ x }}!{% endmacro %}{{ 'a'|upper }}{{ upper('a') }}",
    "{% filter upper %}a{{ s }}b{% endfilter %}", "{% filter replace('a', 'b')|upper %}aXa{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% filter trim %}\n a \n{% endfilter %}|",
    "{% generation %}a{{ i }}{% set w = 1 %}{% endgeneration %}{{ w is defined }}", "{% generation %}\nx\n{% endgeneration %}\ny", "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    # objects that change
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c", "{% set j = joiner() %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set ns = namespace(f=true) %}{% for x in l if ns.f %}{{ x }}{% set ns.f = false %}{% endfor %}", "{% set ns = namespace(x=[]) %}{% for x in l %}{% set ns.x = ns.x + [x] %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is sameas ns }}",
    # mistakes
    "{% endif %}", "{% if 1 %}{% endfor %}", "{% unknown %}", "{{ 1 + }}", "{{ 'a }}", "{{ (1 }}", "{{ [1 }}", "{{ 1) }}", "{{ {1 }}", "{{ a b }}", "{{ a | }}", "{{ a is }}", "{{ a. }}", "{{ a[ }}", "{{ f(a=1, 2) }}", "{{ f(a=1, a=2) }}", "{{ f(,) }}", "{{ not }}",
    "{% for in l %}{% endfor %}", "{% for x l %}{% endfor %}", "{% for x in %}{% endfor %}", "{% for x in l %}", "{{ $ }}", "{{ a ? b }}", "{{ 1 if }}", "{{ x is defined is defined }}", "{{ a[1:2, 3] }}", "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ 'a' 1 }}", "{{ 1.2.3 }}", "{{ 012 }}",
    "{{ s|nope }}", "{% if no %}{{ s|nope }}{% endif %}ok", "{% if yes %}{{ s|nope }}{% endif %}", "{% if no %}{% for x in l %}{{ x|nope }}{% endfor %}{% endif %}", "{{ (s|nope) if no else 'ok' }}", "{% if no %}{{ s is nope }}{% endif %}ok", "{{ s is nope }}",
    "{% print 1, 2 %}", "{% set x = raise_exception('bad ' ~ i) %}", "{% if not tools %}{{ raise_exception('Tools, please: ' + s) }}{% endif %}", "{{ i if raise_exception is defined }}", "{%- if i == 7 -%}\n{{- raise_exception('seven') -}}\n{%- endif -%}",
]


def split(block):
    return [expression.strip() for line in block.strip().split("\n") for expression in line.split(" | ") if expression.strip()]


def used(source):
    """The variables a template names."""
    return {name: value for name, value in DATA.items() if name in source}


CASES = ([("{{ " + expression + " }}|{{ [" + expression + "] }}", used(expression))
          for block in (NUMBERS, TEXTS, COLLECTIONS) for expression in split(block)]
         + [(source, used(source)) for source in STATEMENTS])
