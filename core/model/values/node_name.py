"""Names of nodes as people write them."""


def names_node(text: str, node: str) -> bool:
    """Whether a text means a node: by its whole name, or without its domain, as tables show it (`ip-10-0-0-4`)."""
    return text == node or (bool(text) and node.startswith(f"{text}."))
