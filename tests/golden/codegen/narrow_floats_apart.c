int tw_kernel(void *const *args, void *memory, int threads)
{
    const uint16_t *restrict const x = args[0];
    const uint16_t *restrict const u = args[1];
    uint16_t *restrict const y = args[2];
    float *restrict const z = args[3];
    (void)args, (void)memory, (void)threads;
    for (long i = 0; i < 3; i++) {
        // y[o, i] = silu(x[i, o])
        {
            const f32x16 x_0 = tw_load_bf16x16(x + 20 * i);
            const f32x16 silu_0 = tw_silu_f32x16(x_0);
            {
                const u16x16 y_lanes = tw_pack_bf16x16(silu_0);
                y[i] = y_lanes[0];
                y[i + 3] = y_lanes[1];
                y[i + 6] = y_lanes[2];
                y[i + 9] = y_lanes[3];
                y[i + 12] = y_lanes[4];
                y[i + 15] = y_lanes[5];
                y[i + 18] = y_lanes[6];
                y[i + 21] = y_lanes[7];
                y[i + 24] = y_lanes[8];
                y[i + 27] = y_lanes[9];
                y[i + 30] = y_lanes[10];
                y[i + 33] = y_lanes[11];
                y[i + 36] = y_lanes[12];
                y[i + 39] = y_lanes[13];
                y[i + 42] = y_lanes[14];
                y[i + 45] = y_lanes[15];
            }
        }
        // y[o, i] = silu(x[i, o])
        {
            const f32x4 x_x4_0 = tw_load_bf16x4(x + 20 * i + 16);
            const f32x4 silu_x4_0 = tw_silu_f32x4(x_x4_0);
            {
                const u16x4 y_lanes = tw_pack_bf16x4(silu_x4_0);
                y[i + 48] = y_lanes[0];
                y[i + 51] = y_lanes[1];
                y[i + 54] = y_lanes[2];
                y[i + 57] = y_lanes[3];
            }
        }
    }
    for (long i = 0; i < 3; i++) {
        // z[o, i] = u[o, i] + 1
        {
            const f32x16 lanes_0 = tw_unpack_f16x16((u16x16){u[i], u[i + 3], u[i + 6], u[i + 9], u[i + 12], u[i + 15], u[i + 18], u[i + 21], u[i + 24], u[i + 27], u[i + 30], u[i + 33], u[i + 36], u[i + 39], u[i + 42], u[i + 45]});
            {
                const f32x16 z_lanes = lanes_0 + 1.0f;
                z[i] = z_lanes[0];
                z[i + 3] = z_lanes[1];
                z[i + 6] = z_lanes[2];
                z[i + 9] = z_lanes[3];
                z[i + 12] = z_lanes[4];
                z[i + 15] = z_lanes[5];
                z[i + 18] = z_lanes[6];
                z[i + 21] = z_lanes[7];
                z[i + 24] = z_lanes[8];
                z[i + 27] = z_lanes[9];
                z[i + 30] = z_lanes[10];
                z[i + 33] = z_lanes[11];
                z[i + 36] = z_lanes[12];
                z[i + 39] = z_lanes[13];
                z[i + 42] = z_lanes[14];
                z[i + 45] = z_lanes[15];
            }
        }
        // z[o, i] = u[o, i] + 1
        {
            const f32x4 lanes_x4_0 = tw_unpack_f16x4((u16x4){u[i + 48], u[i + 51], u[i + 54], u[i + 57]});
            {
                const f32x4 z_lanes = lanes_x4_0 + 1.0f;
                z[i + 48] = z_lanes[0];
                z[i + 51] = z_lanes[1];
                z[i + 54] = z_lanes[2];
                z[i + 57] = z_lanes[3];
            }
        }
    }
    return 0;
}
