'use strict';
// keyv's own suite for its stores, on ours: both come from npm, into a folder of the test's own. Without a registry the test
// is skipped.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { PACKAGE, installPackages } = require('./util.js');

const NAMES = ['keyv@5', '@keyv/test-suite@2', 'vitest'];
const folder = installPackages(NAMES);

test("keyv's own suite", () => {
  fs.writeFileSync(path.join(folder, 'suite.test.mjs'), `
    import { createRequire } from 'node:module';
    import * as vitest from 'vitest';
    import suite, { keyvIteratorTests } from '@keyv/test-suite';
    import Keyv from 'keyv';

    const require = createRequire(import.meta.url);
    const { KeyvTslab } = require('${path.join(PACKAGE, 'stores/keyv.js')}');
    const pool = require('${PACKAGE}').create();
    suite(vitest, Keyv, () => new KeyvTslab(pool));
    keyvIteratorTests(vitest, Keyv, () => new KeyvTslab(pool));
  `);
  const done = spawnSync(process.execPath, [path.join(folder, 'node_modules/vitest/vitest.mjs'), 'run', '--reporter=json'], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 120000,
  });
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(done.stdout);
  for (const result of testResults.flatMap((file) => file.assertionResults))
    assert.strictEqual(result.status, 'passed', `${result.fullName}: ${result.failureMessages}`);
  assert.ok(numFailedTests === 0 && numPassedTests >= 40, `${numPassedTests} passed, ${numFailedTests} failed`);
  assert.strictEqual(done.status, 0);
  console.log(`# keyv's suite: ${numPassedTests} passed`);
});
