"""What trees of hashes stand on: leaves and pieces of so many bytes, and the root of nothing."""

LEAF = 1024
PIECE = 1 << 20
#: The root of a tree without leaves, and the hash of a padding leaf.
NOTHING = bytes(32)
