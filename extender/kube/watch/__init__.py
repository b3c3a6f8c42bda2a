"""Lists and watches of the API server: a cache is kept equal to the objects of one kind."""
