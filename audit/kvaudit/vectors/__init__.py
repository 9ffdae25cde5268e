"""Conformance vectors: step programs with refusals and expected answers, for implementers in any language."""
