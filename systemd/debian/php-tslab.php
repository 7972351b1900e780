mod bindings/php/tslab.ini
