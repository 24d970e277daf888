"""The User-Mode Linux guest and its image. This package imports no other package of the project."""
