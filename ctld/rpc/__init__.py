"""gRPC servicers, authentication and the table of rights. Translation only: decisions are the core's."""
