"""What costs a recording most: one module per family of causes, and one that ranks what they say.

Each family looks at one device in one `Scope`, the steps of a phase, and names what costs these
steps time, where, and what mending it can win at most.
"""
