# The module is compiled from build_native.py.
from typing import Any

ffi: Any
lib: Any
