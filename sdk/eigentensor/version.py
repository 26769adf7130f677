"""The version of all of it: the build takes it from here, and commands do not search the installed distributions."""

VERSION = "0.1.0"
