//! NVIDIA's driver: a card, its context and its stream, with errors as lines.

use crate::architecture::Architecture;
use cudarc::driver::sys::{self, CUresult};
use device::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The oldest driver that all functions are there in, as CUDA counts: 12.3 has graphs with programmatic edges.
const OLDEST: i32 = 12_030;

/// A driver that can be used, and its CUDA version (major, minor).
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The newest CUDA that it runs.
    pub version: (i32, i32),
}

impl Driver {
    /// Finds and initialises the driver.
    ///
    /// # Errors
    /// [`Error::Unusable`] with what is missing.
    pub fn load() -> Result<Driver> {
        // SAFETY: opening the driver's library runs its initialisers, which do nothing but look at the system.
        if !unsafe { sys::is_culib_present() } {
            return Err(unusable(
                "no NVIDIA driver: libcuda.so.1 is not found; install the driver of the card (Debian, Ubuntu: \
                 apt install nvidia-driver), in a container start it with --gpus all, or use --device cpu",
            ));
        }
        let mut version = 0;
        // SAFETY: the function is there in every driver, and writes one integer.
        check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
        if version < OLDEST {
            return Err(unusable(format!(
                "the NVIDIA driver is too old: it runs CUDA {}.{}, and 12.3 is needed; install driver 545 or newer, or use \
                 --device cpu",
                version / 1000,
                version % 1000 / 10
            )));
        }
        // SAFETY: no other requirement than the flags.
        let result = unsafe { sys::cuInit(0) };
        if result == CUresult::CUDA_ERROR_NO_DEVICE {
            return Err(unusable(
                "the NVIDIA driver finds no card (CUDA_VISIBLE_DEVICES may hide it); use --device cpu",
            ));
        }
        check("cuInit", result)?;
        Ok(Driver { version: (version / 1000, version % 1000 / 10) })
    }

    /// The cards that this process may use.
    ///
    /// # Errors
    /// Of the driver.
    pub fn cards(&self) -> Result<Vec<Card>> {
        let mut count = 0;
        // SAFETY: the driver is initialised; one integer is written.
        check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        (0..count).map(|ordinal| Card::read(ordinal, *self)).collect()
    }
}

/// What is known of a card.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its number among those that can be seen.
    pub ordinal: i32,
    handle: sys::CUdevice,
    /// What drives it.
    pub driver: Driver,
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory.
    pub memory: usize,
}

impl Card {
    fn read(ordinal: i32, driver: Driver) -> Result<Card> {
        use sys::CUdevice_attribute as Is;
        let (mut handle, mut name, mut memory) = (0, [0u8; 128], 0);
        // SAFETY: the ordinal is below the count; each call writes what it is given room for.
        unsafe {
            check("cuDeviceGet", sys::cuDeviceGet(&mut handle, ordinal))?;
            check("cuDeviceGetName", sys::cuDeviceGetName(name.as_mut_ptr().cast(), 127, handle))?;
            check("cuDeviceTotalMem", sys::cuDeviceTotalMem_v2(&mut memory, handle))?;
        }
        let of = |which| {
            let mut value = 0;
            // SAFETY: as above.
            check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, which, handle) })?;
            Ok::<i32, Error>(value)
        };
        let name = CStr::from_bytes_until_nul(&name).map_or(String::new(), |name| name.to_string_lossy().into_owned());
        Ok(Card {
            ordinal,
            handle,
            driver,
            name,
            capability: (
                of(Is::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                of(Is::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: of(Is::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory,
        })
    }

    /// What kernels are made for.
    pub fn architecture(&self) -> Architecture {
        Architecture { capability: self.capability, multiprocessors: self.multiprocessors }
    }
}

/// A card in use: its context, and the stream that everything goes through in order.
pub struct Context {
    /// The card.
    pub card: Card,
    context: sys::CUcontext,
    stream: sys::CUstream,
}

// SAFETY: the driver's handles may be used from any thread in whose turn the context is made current, which every
// function here does first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Context {}

impl Context {
    /// Takes a card into use.
    ///
    /// # Errors
    /// [`Error::Unusable`], and of the driver.
    pub fn new(card: Card) -> Result<Arc<Context>> {
        card.architecture().check(&card.name)?;
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the handle is of this driver; the context is released and the stream destroyed once, when this is
        // dropped.
        unsafe {
            check("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&mut context, card.handle))?;
            check("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))?;
            let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
            check("cuStreamCreate", sys::cuStreamCreate(&mut stream, flags))?;
        }
        Ok(Arc::new(Context { card, context, stream }))
    }

    /// Its name in flags and reports.
    pub fn name(&self) -> String {
        format!("cuda:{}", self.card.ordinal)
    }

    /// Calls the driver with this context current.
    ///
    /// # Errors
    /// [`Error::Failed`] if the call says so.
    pub fn call(&self, name: &str, call: impl FnOnce(sys::CUstream) -> CUresult) -> Result<()> {
        self.result(call).map_err(|result| self.failed(name, result))
    }

    /// As [`Context::call`], with the driver's own result.
    pub fn result(&self, call: impl FnOnce(sys::CUstream) -> CUresult) -> Result<(), CUresult> {
        // SAFETY: the context lives as long as `self`.
        let mut result = unsafe { sys::cuCtxSetCurrent(self.context) };
        if result == CUresult::CUDA_SUCCESS {
            result = call(self.stream);
        }
        if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(result) }
    }

    /// What a result of the driver says.
    pub fn failed(&self, call: &str, result: CUresult) -> Error {
        let device = format!("{} ({})", self.name(), self.card.name);
        Error::Failed { device, problem: format!("{call}: {}", text(result)) }
    }

    /// Waits for everything that was sent to the card.
    ///
    /// # Errors
    /// [`Error::Failed`]: a kernel that failed is heard of here.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        self.call("cuStreamSynchronize", |stream| unsafe { sys::cuStreamSynchronize(stream) })
    }

    /// Launches a kernel, whose arguments are numbers of 64 bits.
    ///
    /// # Safety
    /// The kernel has these parameters, and what it reads and writes through them lives until it has ended.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub unsafe fn launch(&self, kernel: sys::CUfunction, shape: Shape, arguments: &[u64]) -> Result<()> {
        let mut arguments = pointers(arguments);
        let (none, Shape { blocks, threads, shared }) = (std::ptr::null_mut(), shape);
        self.call("cuLaunchKernel", |stream| {
            // SAFETY: the driver copies the arguments before it returns; the rest is the caller's promise.
            unsafe {
                let arguments = arguments.as_mut_ptr();
                sys::cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, shared, stream, arguments, none)
            }
        })
    }

    /// Bytes that are free, and all.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers are written.
        self.call("cuMemGetInfo", |_| unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free, total))
    }

    /// Nanoseconds of the fastest of five runs of what is launched, after each other.
    ///
    /// # Errors
    /// Of the launch, and [`Error::Failed`].
    pub fn fastest(self: &Arc<Context>, launch: impl Fn() -> Result<()>) -> Result<u64> {
        let mut least = u64::MAX;
        for _ in 0..5 {
            let (start, end) = (self.event()?, self.event()?);
            start.record()?;
            launch()?;
            end.record()?;
            end.wait()?;
            least = least.min(end.since(&start)?);
        }
        Ok(least.max(1))
    }

    /// A moment of the stream, with its time.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn event(self: &Arc<Context>) -> Result<Event> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the event is destroyed once, when it is dropped.
        self.call("cuEventCreate", |_| unsafe { sys::cuEventCreate(&mut event, 0) })?;
        Ok(Event { context: self.clone(), event })
    }

    /// Loads the code of a kernel.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn module(self: &Arc<Context>, code: &[u8]) -> Result<Module> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the code is that of the compiler, whole by its digest; the module is unloaded once.
        self.call("cuModuleLoadData", |_| unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()) })?;
        Ok(Module { context: self.clone(), module })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing uses the stream any more: whatever did holds this context.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let _ = sys::cuStreamDestroy_v2(self.stream);
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.card.handle);
        }
    }
}

/// A moment of the stream.
pub struct Event {
    context: Arc<Context>,
    event: sys::CUevent,
}

// SAFETY: as for the context.
unsafe impl Send for Event {}
// SAFETY: as for the context.
unsafe impl Sync for Event {}

impl Event {
    /// Makes it the moment in which all that was sent so far has ended.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn record(&self) -> Result<()> {
        // SAFETY: the event and the stream are alive.
        self.context.call("cuEventRecord", |stream| unsafe { sys::cuEventRecord(self.event, stream) })
    }

    /// Waits for it.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn wait(&self) -> Result<()> {
        // SAFETY: as above.
        self.context.call("cuEventSynchronize", |_| unsafe { sys::cuEventSynchronize(self.event) })
    }

    /// Whether it is over, or was never recorded.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn passed(&self) -> Result<bool> {
        // SAFETY: as above.
        match self.context.result(|_| unsafe { sys::cuEventQuery(self.event) }) {
            Ok(()) => Ok(true),
            Err(sys::CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
            Err(result) => Err(self.context.failed("cuEventQuery", result)),
        }
    }

    /// Nanoseconds from another event to this one; both have passed.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn since(&self, before: &Event) -> Result<u64> {
        let mut milliseconds = 0.0;
        self.context.call("cuEventElapsedTime", |_| {
            // SAFETY: as above.
            unsafe { sys::cuEventElapsedTime(&mut milliseconds, before.event, self.event) }
        })?;
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once; the driver keeps it until it has passed.
        let _ = self.context.call("cuEventDestroy", |_| unsafe { sys::cuEventDestroy_v2(self.event) });
    }
}

/// Code on the card.
pub struct Module {
    context: Arc<Context>,
    module: sys::CUmodule,
}

// SAFETY: as for the context.
unsafe impl Send for Module {}
// SAFETY: as for the context.
unsafe impl Sync for Module {}

impl Module {
    /// A kernel that may have so much shared memory.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn function(&self, symbol: &CStr, shared_bytes: usize) -> Result<sys::CUfunction> {
        use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as MOST_SHARED;
        /// What a block has without asking.
        const PLAIN: usize = 48 << 10;
        let mut function = MaybeUninit::uninit();
        self.context.call("cuModuleGetFunction", |_| {
            // SAFETY: the module is alive; the function is written where the call succeeds.
            unsafe { sys::cuModuleGetFunction(function.as_mut_ptr(), self.module, symbol.as_ptr()) }
        })?;
        // SAFETY: it was written.
        let function = unsafe { function.assume_init() };
        if shared_bytes > PLAIN {
            self.context.call("cuFuncSetAttribute", |_| {
                // SAFETY: the function is alive.
                unsafe { sys::cuFuncSetAttribute(function, MOST_SHARED, shared_bytes as c_int) }
            })?;
        }
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it is unloaded once; executables wait for their steps before they let go of it.
        let _ = self.context.call("cuModuleUnload", |_| unsafe { sys::cuModuleUnload(self.module) });
    }
}

/// An error that ends in what to do.
pub fn unusable(text: impl Into<String>) -> Error {
    Error::Unusable(text.into())
}

/// A call outside of a context.
fn check(call: &str, result: CUresult) -> Result<()> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        result => {
            Err(Error::Failed { device: "the NVIDIA driver".into(), problem: format!("{call}: {}", text(result)) })
        }
    }
}

/// The driver's words for a result.
fn text(result: CUresult) -> String {
    let of = |call: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: a static string is written, or nothing.
        unsafe {
            (call(result, &mut text) == CUresult::CUDA_SUCCESS && !text.is_null())
                .then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    let name = of(sys::cuGetErrorName).unwrap_or_else(|| format!("{result:?}"));
    of(sys::cuGetErrorString).map_or(name.clone(), |text| format!("{text} ({name})"))
}

/// How many blocks of how many threads a kernel is launched in, and the bytes of shared memory of each.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

/// Pointers to arguments, as the driver takes them.
pub fn pointers(arguments: &[u64]) -> Vec<*mut c_void> {
    arguments.iter().map(|argument| std::ptr::from_ref(argument).cast_mut().cast()).collect()
}
