//! Tests of adapters. Those that run kernels take the first adapter, which may be one in software (Mesa's lavapipe), and do
//! nothing without any.

mod ahead;
mod budget;
mod examples;
mod golden;
mod translated;
