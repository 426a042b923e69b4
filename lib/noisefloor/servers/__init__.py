"""Server builds, throwaway servers, guests, evidence, links."""
