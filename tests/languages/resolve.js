'use strict';
// Finds the package `tslab` in the build folder, for programs that were written for where it is installed.

const Module = require('node:module');

const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => resolve(name === 'tslab' ? process.env.NODE_PACKAGE : name, ...rest);
