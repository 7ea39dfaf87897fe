"""Matrix products: `text` writes the kernel, and `products` describes each product for it."""
