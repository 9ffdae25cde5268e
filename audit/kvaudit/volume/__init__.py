"""The generated part of an audit cut into shards, for several processes or many machines."""
