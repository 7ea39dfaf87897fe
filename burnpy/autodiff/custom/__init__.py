"""Operations of the user's own: `Function`, and rules for plain functions."""
