"""Has the C compiler compare the declarations of tslab-sys with the headers: each function, constant and struct.

    test-ffi.py CARGO SOURCE BUILD
"""

import os
import re
import subprocess
import sys
import tempfile

SOURCE = sys.argv[2]
C_TYPES = {'c_int': 'int', 'isize': 'ssize_t', 'usize': 'size_t', 'bool': 'bool', 'f64': 'double', 'c_char': 'char',
           'c_void': 'void', 'tslab_handle': 'tslab_handle',
           **{f'{sign}{n}': f'{"u" if sign == "u" else ""}int{n}_t' for n in (8, 16, 32, 64) for sign in 'iu'}}


def c_type(rust):
    """`*const *mut T` is read from the right in C: `T *const *` there. A const is that of the pointed-to."""
    rust, layers = rust.strip(), []
    while rust.startswith('*'):
        layer, rust = re.match(r'\*(const|mut)\s+(.*)', rust).groups()
        layers.append(layer)
    text = C_TYPES.get(rust) or f'struct {rust}'
    for layer in reversed(layers):
        text += ' const *' if layer == 'const' else ' *'
    return text


def declarations(text):
    text = re.sub(r'//.*', '', text)
    yield '#include <stddef.h>', None
    yield '#include <tslab_near.h>', None
    constants = dict(re.findall(r'pub const (TSLAB_\w+): \w+ = (.*?);', text))
    for name, value in constants.items():
        value = re.sub(r'(?<=\d)_(?=\d)', '', value).replace('u32::MAX', 'UINT32_MAX').replace('u64::MAX', 'UINT64_MAX')
        yield f'_Static_assert({name} == {value}, "{name}");', name
    for name, body in re.findall(r'pub struct (tslab_\w+) \{\s*pub(.*?)\n\}', text, re.S):
        members = re.findall(r'(\w+): ([^,]+?),\s', 'pub' + body + '\n')
        lines = []
        for member, rust in members:
            array = re.match(r'\[(.*); (.*)\]', rust)
            lines.append(f'{c_type(array[1])} {member}[{array[2]}];' if array else f'{c_type(rust)} {member};')
        yield f'struct rust_{name} {{ {" ".join(lines)} }};', None
        yield f'_Static_assert(sizeof(struct {name}) == sizeof(struct rust_{name}), "size of {name}");', name
        for member, _ in members:
            yield (f'_Static_assert(offsetof(struct {name}, {member}) == offsetof(struct rust_{name}, {member}) && '
                   f'__builtin_types_compatible_p(__typeof__(((struct {name} *) 0)->{member}), '
                   f'__typeof__(((struct rust_{name} *) 0)->{member})), "{name}.{member}");'), name
    for name, arguments, result in re.findall(r'pub fn (tslab_\w+)\((.*?)\)\s*(?:-> (.*?))?;', text, re.S):
        types = [c_type(a.split(':', 1)[1]) for a in arguments.split(',') if ':' in a]
        yield f'{c_type(result) if result else "void"} {name}({", ".join(types) or "void"});', name


def compiles(lines):
    with tempfile.NamedTemporaryFile('w', suffix='.c') as file:
        file.write('\n'.join(lines) + '\n')
        file.flush()
        return subprocess.run(['cc', '-fsyntax-only', '-std=gnu11', '-I', os.path.join(SOURCE, 'libclient'), file.name],
                              stderr=subprocess.PIPE, text=True)


with open(os.path.join(SOURCE, 'bindings/rust/tslab-sys/src/lib.rs')) as file:
    text = file.read()
with open(os.path.join(SOURCE, 'libclient/libtslab.sym')) as file:
    symbols = set(re.findall(r'(tslab_\w+);', file.read()))
lines = list(declarations(text))
names = {name for _, name in lines}
assert symbols <= names, f'tslab-sys lacks {sorted(symbols - names)}'
done = compiles([line for line, _ in lines])
assert done.returncode == 0, done.stderr
# Each kind of declaration is compared: a planted fault is an error.
for right, wrong in [('key_size: usize', 'key_size: u32'), ('-> isize', '-> c_int'), ('TSLAB_MAP_STALE: u32 = 2', 'TSLAB_MAP_STALE: u32 = 3'),
                     ('pub place: tslab_handle', 'pub place: u32'), ('pub ttl_ms: u64', 'pub ttl: u64'),
                     ('buffer: *mut c_void', 'buffer: *const c_void')]:
    assert right in text
    assert compiles([line for line, _ in declarations(text.replace(right, wrong, 1))]).returncode != 0, wrong
n = {kind: sum(1 for line, name in lines if name and line.startswith('_Static') == kind) for kind in (True, False)}
print(f'{n[False]} functions, {n[True]} constants and members as in the headers')
