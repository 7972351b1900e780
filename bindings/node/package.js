'use strict';
// Makes a copy of the package with prebuilt addons, for `npm pack` and `npm publish`: those of these build folders, as of
// x86-64 and of the cross build for arm64. Usage: node package.js FOLDER BUILD...

const fs = require('node:fs');
const path = require('node:path');

const MACHINES = { 62: 'x64', 183: 'arm64' }; // of ELF

const [folder, ...builds] = process.argv.slice(2);
if (builds.length === 0) {
  console.error('Usage: node package.js FOLDER BUILD...');
  process.exit(2);
}
const unwanted = new Set(['build', 'node_modules', 'package.js', 'meson.build'].map((name) => path.join(__dirname, name)));
fs.cpSync(__dirname, folder, { recursive: true, filter: (file) => !unwanted.has(file) && path.basename(file) !== 'meson.build' });
for (const build of builds) {
  const file = path.join(build, 'bindings/node/tslab-prebuilt.node');
  const header = Buffer.alloc(20);
  const fd = fs.openSync(file);
  fs.readSync(fd, header);
  fs.closeSync(fd);
  const arch = MACHINES[header.readUInt16LE(18)];
  if (arch === undefined) throw new Error(`${file} is for a processor that Node's package does not know`);
  fs.mkdirSync(path.join(folder, `prebuilds/linux-${arch}`), { recursive: true });
  fs.copyFileSync(file, path.join(folder, `prebuilds/linux-${arch}/tslab.node`));
  console.log(`linux-${arch}`);
}
