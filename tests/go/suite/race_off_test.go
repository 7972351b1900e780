//go:build !race

package tslabtest

const isRace = false
