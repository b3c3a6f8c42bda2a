"""netgang's tests, in folders by behaviour."""
