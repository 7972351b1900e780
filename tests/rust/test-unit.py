"""The crates' own tests, and the examples in their documentation, each of which is a program."""

from rust import Tree

Tree().cargo('bindings/rust', 'test', '--quiet', '-p', 'tslab')
