"""Matrix products: `products` describes each one for the kernel that `text` writes, with the loops of `copies`."""
