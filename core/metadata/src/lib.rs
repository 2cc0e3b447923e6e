//! What the cluster is: record, delta, image.
