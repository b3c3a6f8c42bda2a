"""`netgang doctor`: `facts` looks and changes nothing, `checks` judge. What could not be seen is left out, and said."""
