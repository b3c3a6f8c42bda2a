"""The HTTP side: from bytes on a connection to a verb or a document, and back."""
