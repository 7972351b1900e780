'use strict';
// Run by npm when the package is installed: fails where no prebuilt addon works here, and then npm builds one.

const { existsSync } = require('node:fs');
const path = require('node:path');

const file = path.join(__dirname, `prebuilds/linux-${process.arch}/tslab.node`);
if (existsSync(file)) {
  try {
    require(file);
    process.exit(0);
  } catch (error) {
    console.error(`the prebuilt addon is not for this system: ${error.message}`);
  }
}
process.exit(1);
