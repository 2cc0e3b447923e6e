//! Record batches: the bytes stored and sent unchanged.
